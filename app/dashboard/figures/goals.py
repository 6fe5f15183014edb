"""Goals: requests of people that match (completions), and sessions in which at least one did (conversions).

A goal is a pattern of paths (see `walks.matches`), optionally with a status and a method; or a download of a file with
one of these extensions, in any case of letters; or a search. A match belongs to its visitor's session with
start <= time < end + session gap, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pandas as pd

from . import comparison, conditions, conversions
from .comparison import Change
from .extents import Extent
from .measures import PEOPLE, SESSIONS, SOURCES, measured
from .query import Condition, Where, count, query
from .rows import Rows
from .selection import Selection

Goals = Mapping[str, Mapping[str, Any]]
_SPECIAL = re.compile(r"[\\.^$|?*+()\[\]{}]")


def goals(rows: Rows, selection: Selection, declared: Goals) -> pd.DataFrame:
    """Columns `name`, `conversions` (sessions that started in the range) and `completions` (requests in the range) of
    each goal that the selection's site has; in order of names."""
    mine = of_site(declared, selection.site)
    reached = conversions.conversions(rows, selection, {n: (g, matching(g)) for n, g in mine.items()})
    counted = reached.groupby("name")["conversions"].sum() if len(reached) else {}
    done = completions(rows, selection, mine)
    found = [(name, int(counted.get(name, 0)), done[name]) for name in sorted(mine)]
    return pd.DataFrame(found, columns=["name", "conversions", "completions"])


def with_rates(rows: Rows, selection: Selection, declared: Goals) -> pd.DataFrame:
    """The same with `rate`: conversions as a share of the sessions of the goal's sites; None without sessions."""
    found = goals(rows, selection, declared)
    sessions = measured(rows, selection, SESSIONS, (SOURCES,), ["sessions"], by=["site"])
    by_site = dict(zip(sessions["site"], sessions["sessions"], strict=True))
    every = [
        by_site.get(site, 0) if (site := declared[name].get("site")) else sum(by_site.values())
        for name in found["name"]
    ]
    rates = [n / total if total else None for n, total in zip(found["conversions"], every, strict=True)]
    return found.assign(rate=pd.Series(rates, dtype="float64"))


def changes(
    rows: Rows, selection: Selection, declared: Goals, extent: Extent, clock: datetime
) -> dict[str, dict[str, Change]]:
    """By goal, each figure of `with_rates` with that of the period compared with, if there is one."""
    now = with_rates(rows, selection, declared).set_index("name")
    period = comparison.earlier(selection, extent, clock)
    before = None if period is None else with_rates(rows, period, declared).set_index("name")
    return {
        name: {
            figure: Change(_known(row[figure]), None if before is None else _known(before.at[name, figure]))
            for figure in ("conversions", "completions", "rate")
        }
        for name, row in now.iterrows()
    }


def over_time(rows: Rows, selection: Selection, declared: Goals, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `name`, `channel`, `conversions`, by the time at which sessions started."""
    mine = of_site(declared, selection.site)
    wanted = {name: (goal, matching(goal)) for name, goal in mine.items()}
    return conversions.conversions(rows, selection, wanted, bin_seconds)


def by_channel(rows: Rows, selection: Selection, name: str, goal: Mapping[str, Any]) -> pd.DataFrame:
    """Columns `channel`, `conversions`, `sessions` (of the goal's sites) and `rate`; most conversions first."""
    if goal.get("site"):
        selection = replace(selection, site=str(goal["site"]))
    sessions = measured(rows, selection, SESSIONS, (SOURCES,), ["sessions"], by=["channel"])
    reached = conversions.conversions(rows, selection, {name: (goal, matching(goal))})
    counted = reached.groupby("channel")["conversions"].sum() if len(reached) else {}
    found = sessions.assign(conversions=[int(counted.get(c, 0)) for c in sessions["channel"]])
    found["rate"] = found["conversions"] / found["sessions"]
    found = found.sort_values(["conversions", "sessions", "channel"], ascending=[False, False, True])
    return found[["channel", "conversions", "sessions", "rate"]].reset_index(drop=True)


def completions(rows: Rows, selection: Selection, declared: Goals) -> dict[str, int]:
    """By goal, the requests of the range that match it. Patterns are matched against each distinct path once."""
    if selection.recount or not declared:
        return {n: _matched(rows, selection, matching(goal)) for n, goal in declared.items()}
    searched = {name for name, goal in declared.items() if goal.get("search")}
    done = {name: _matched(rows, selection, matching(declared[name])) for name in searched}
    others = {name: goal for name, goal in declared.items() if name not in searched}
    if not others:
        return done
    asked = {
        "path",
        *(field for goal in others.values() for field in ("site", "status", "method") if goal.get(field)),
    }
    columns = {name: name for name in sorted(asked)}
    kept = (*conditions.of_lines(selection), PEOPLE, Where("path", "is not null"))
    found = rows(query(conditions.REQUESTS, {**columns, "n": count()}, kept, group_by=list(columns)))
    return done | {name: _sum(found, goal) for name, goal in others.items()}


def of_site(declared: Goals, site: str | None) -> dict[str, Mapping[str, Any]]:
    """The goals that a site (None: any) has."""
    return {
        name: goal
        for name, goal in sorted(declared.items())
        if not goal.get("site") or site in (None, goal["site"])
    }


def matching(goal: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Conditions on rows of silver.requests: those of a goal as `tidemark.toml` declares it."""
    same = tuple(Where(field, "=", value) for field, value in _exact(goal).items())
    if goal.get("search"):
        return (PEOPLE, *same, Where("search_term", "is not null"))
    path = str(goal.get("path", ""))
    if goal.get("download") or "*" in path:
        return (PEOPLE, *same, Where("path", "matches", _expression(goal)))
    return (PEOPLE, *same, Where("path", "=", path))


def downloads(extensions: tuple[str, ...]) -> Condition:
    """Requests of files with one of these extensions."""
    return Where("path", "matches", _expression({"download": extensions}))


def _expression(goal: Mapping[str, Any]) -> str:
    """A regular expression, of any engine, for whole paths."""
    if goal.get("download"):
        extensions = "|".join(_literal(str(e).lstrip(".")) for e in goal["download"])
        return rf"(?is)^.*\.({extensions})$"
    return "(?s)^" + ".*".join(map(_literal, str(goal.get("path", "")).split("*"))) + "$"


def _exact(goal: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that must have a value."""
    numbers = {"status": int(goal["status"])} if goal.get("status") else {}
    return {f: goal[f] for f in ("site", "method") if goal.get(f)} | numbers


def _matched(rows: Rows, selection: Selection, of_goal: tuple[Condition, ...]) -> int:
    lines = (*conditions.of_lines(selection), *of_goal)
    return int(rows(query(conditions.REQUESTS, {"n": count()}, lines))["n"].iloc[0])


def _sum(found: pd.DataFrame, goal: Mapping[str, Any]) -> int:
    """The rows `n` of each path, status and method that a goal matches."""
    kept = pd.Series(True, index=found.index)
    for field, value in _exact(goal).items():
        kept &= found[field] == value
    # The end of a text, where Python's $ would also match before a last line break.
    pattern = _expression(goal).removesuffix("$").removeprefix("(?s)").removeprefix("(?is)").removeprefix("^")
    flags = re.DOTALL | (re.IGNORECASE if goal.get("download") else 0)
    matches = re.compile(pattern, flags).fullmatch
    return int(
        found.loc[kept & found["path"].map(lambda path: matches(path) is not None).astype(bool), "n"].sum()
    )


def _literal(text: str) -> str:
    """Text for a regular expression of any engine, which takes it as it is."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def _known(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
