"""Goals: requests of people that match (completions), and sessions in which at least one did (conversions).

A goal is a pattern of paths (see `walks.matches`), optionally with a status and a method; or a download of a file with
one of these extensions, in any case of letters; or a search. A match belongs to its visitor's session with
start <= time < end + session gap, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pandas as pd

from tidemark.figures import comparison, conditions, conversions, silver
from tidemark.figures.comparison import Change, known
from tidemark.figures.declared import Goal
from tidemark.figures.extents import Extent
from tidemark.figures.measures import split
from tidemark.figures.query import Condition, Where, count, query
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE

Goals = Mapping[str, Goal]
_SPECIAL = re.compile(r"[\\.^$|?*+()\[\]{}]")


def goals(rows: Rows, selection: Selection, declared: Goals) -> pd.DataFrame:
    """Columns `name`, `conversions` (sessions that started in the range) and `completions` (requests in the range) of
    each goal that the selection's site has; in order of names."""
    mine = of_site(declared, selection.site)
    reached = conversions.conversions(rows, selection, _wanted(mine))
    counted: dict[Any, int] = reached.groupby("name")["conversions"].sum().to_dict()
    done = completions(rows, selection, mine)
    counts = [(name, int(counted.get(name, 0)), done[name]) for name in sorted(mine)]
    return pd.DataFrame(counts, columns=["name", "conversions", "completions"])


def with_rates(rows: Rows, selection: Selection, declared: Goals) -> pd.DataFrame:
    """The same with `rate`: conversions as a share of the sessions of the goal's sites; None without sessions."""
    counts = goals(rows, selection, declared)
    sessions = conversions.sessions(rows, selection, _wanted(of_site(declared, selection.site)), "site")
    by_site = dict(zip(sessions["site"], sessions["sessions"], strict=True))
    every = [
        by_site.get(site, 0) if (site := declared[name].site) else sum(by_site.values())
        for name in counts["name"]
    ]
    rates = [n / total if total else None for n, total in zip(counts["conversions"], every, strict=True)]
    return counts.assign(rate=pd.Series(rates, dtype="float64"))


def changes(
    rows: Rows, selection: Selection, declared: Goals, extent: Extent, clock: datetime
) -> dict[str, dict[str, Change]]:
    """By goal, each figure of `with_rates` with that of the period compared with, if there is one."""
    now = with_rates(rows, selection, declared).set_index("name")
    period = comparison.earlier(selection, extent, clock)
    before = None if period is None else with_rates(rows, period, declared).set_index("name")
    return {
        str(name): {
            figure: Change(known(row[figure]), None if before is None else known(before.at[name, figure]))
            for figure in ("conversions", "completions", "rate")
        }
        for name, row in now.iterrows()
    }


def over_time(rows: Rows, selection: Selection, declared: Goals, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `name`, `channel`, `conversions`, by the time at which sessions started."""
    return conversions.conversions(rows, selection, _wanted(of_site(declared, selection.site)), bin_seconds)


def by_channel(rows: Rows, selection: Selection, name: str, goal: Goal) -> pd.DataFrame:
    """Columns `channel`, `conversions`, `sessions` (of the goal's sites) and `rate`; most conversions first."""
    if goal.site:
        selection = replace(selection, site=goal.site)
    sessions = conversions.sessions(rows, selection, _wanted({name: goal}), "channel")
    reached = conversions.conversions(rows, selection, _wanted({name: goal}))
    counted: dict[Any, int] = reached.groupby("channel")["conversions"].sum().to_dict()
    channels = sessions.assign(conversions=[int(counted.get(c, 0)) for c in sessions["channel"]])
    channels["rate"] = channels["conversions"] / channels["sessions"]
    channels = channels.sort_values(["conversions", "sessions", "channel"], ascending=[False, False, True])
    return channels[["channel", "conversions", "sessions", "rate"]].reset_index(drop=True)


def _wanted(declared: Goals) -> conversions.Wanted:
    return {name: (goal, matching(goal)) for name, goal in declared.items()}


def completions(rows: Rows, selection: Selection, declared: Goals) -> dict[str, int]:
    """By goal, the requests of the range that match it; from silver all in one read."""
    done = dict.fromkeys(declared, 0)
    for part in split(rows, conversions.COMPLETIONS, selection):
        completed = conversions.completed(rows, part, declared)
        completed |= _from_requests(rows, part, {n: g for n, g in declared.items() if n not in completed})
        done = {name: n + completed[name] for name, n in done.items()}
    return done


def _from_requests(rows: Rows, selection: Selection, declared: Goals) -> dict[str, int]:
    if not declared:
        return {}
    counts = {f"n{i}": count(*matching(goal)) for i, goal in enumerate(declared.values())}
    kept = (*conditions.of_lines(selection), PEOPLE)
    counted = rows(query(silver.REQUESTS, counts, kept)).iloc[0]
    return {name: int(n) for name, n in zip(declared, counted, strict=True)}


def of_site(declared: Goals, site: str | None) -> dict[str, Goal]:
    """The goals that a site (None: any) has."""
    return {
        name: goal for name, goal in sorted(declared.items()) if not goal.site or site in (None, goal.site)
    }


def matching(goal: Goal) -> tuple[Condition, ...]:
    """Conditions on the rows of silver.requests that match a goal."""
    equal = {"site": goal.site, "method": goal.method, "status": goal.status}
    same = tuple(Where(field, "=", value) for field, value in equal.items() if value)
    if goal.search:
        return (PEOPLE, *same, Where("search_term", "is not null"))
    if goal.download:
        return (PEOPLE, *same, downloads(goal.download))
    return (PEOPLE, *same, _path(goal.path))


def downloads(extensions: Sequence[str]) -> Condition:
    """Requests of files with one of these extensions."""
    either = "|".join(_literal(each.lstrip(".")) for each in extensions)
    # Without a beginning, engines match it from the end of the text.
    return Where("path", "matches", rf"(?i)\.({either})$")


def _path(pattern: str) -> Condition:
    start, *others = pattern.split("*")
    if not others:
        return Where("path", "=", pattern)
    if others == [""]:  # much cheaper than a regular expression
        return Where("path", "starts with", start) if start else Where("path", "is not null")
    return Where("path", "matches", "(?s)^" + ".*".join(map(_literal, pattern.split("*"))) + "$")


def _literal(text: str) -> str:
    """Text for a regular expression of any engine, which takes it as it is."""
    return _SPECIAL.sub(r"\\\g<0>", text)
