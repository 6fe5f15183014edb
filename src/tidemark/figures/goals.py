"""Goals: requests of people that match (completions), and sessions in which at least one did (conversions), from the
cheapest table that has them.

A goal is a pattern of paths (see `walks.matches`), optionally with a status and a method; or a download of a file with
one of these extensions, in any case of letters; or a search. A match belongs to its visitor's session with
start <= time < end + session gap, if there is one.

gold.goals, gold.completions and silver.session_goals have the goals that the pipeline knows. A goal that has just been
declared, or whose history is being counted, is counted from requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pandas as pd

from tidemark.figures import comparison, conditions, silver
from tidemark.figures.bins import Bins, bins_of, in_utc
from tidemark.figures.comparison import Change, known
from tidemark.figures.declared import Goal, goals_of
from tidemark.figures.extents import Extent, incomplete
from tidemark.figures.measures import SESSIONS, SOURCES, Gold, has, measured, split
from tidemark.figures.query import (
    Columns,
    Condition,
    Exists,
    Related,
    Where,
    count,
    filled,
    joined,
    later,
    query,
    total,
)
from tidemark.figures.reader import MissingTableError
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE

COMPLETIONS = Gold("gold/completions", 3600)
GOLD = Gold("gold/goals", 3600, frozenset({"channel"}))
REACHED = "silver/session_goals"
GAP_SECONDS = 1800
_SEPARATOR = "\n"
_SPECIAL = re.compile(r"[\\.^$|?*+()\[\]{}]")
Goals = Mapping[str, Goal]


def goals(rows: Rows, selection: Selection, declared: Goals) -> pd.DataFrame:
    """Columns `name`, `conversions` (sessions that started in the range) and `completions` (requests in the range) of
    each goal that the selection's site has; in order of names."""
    mine = of_site(declared, selection.site)
    reached = conversions(rows, selection, mine)
    counted: dict[Any, int] = reached.groupby("name")["conversions"].sum().to_dict()
    done = completions(rows, selection, mine)
    counts = [(name, int(counted.get(name, 0)), done[name]) for name in sorted(mine)]
    return pd.DataFrame(counts, columns=["name", "conversions", "completions"])


def with_rates(rows: Rows, selection: Selection, declared: Goals) -> pd.DataFrame:
    """The same with `rate`: conversions as a share of the sessions of the goal's sites; None without sessions."""
    counts = goals(rows, selection, declared)
    sessions = _sessions(rows, selection, of_site(declared, selection.site), "site")
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
    return conversions(rows, selection, of_site(declared, selection.site), bin_seconds)


def by_channel(rows: Rows, selection: Selection, name: str, goal: Goal) -> pd.DataFrame:
    """Columns `channel`, `conversions`, `sessions` (of the goal's sites) and `rate`; most conversions first."""
    if goal.site:
        selection = replace(selection, site=goal.site)
    sessions = _sessions(rows, selection, {name: goal}, "channel")
    reached = conversions(rows, selection, {name: goal})
    counted: dict[Any, int] = reached.groupby("channel")["conversions"].sum().to_dict()
    channels = sessions.assign(conversions=[int(counted.get(c, 0)) for c in sessions["channel"]])
    channels["rate"] = channels["conversions"] / channels["sessions"]
    channels = ordered(channels, ["-conversions", "-sessions", "channel"])
    return channels[["channel", "conversions", "sessions", "rate"]]


def conversions(
    rows: Rows, selection: Selection, declared: Goals, bin_seconds: int | None = None
) -> pd.DataFrame:
    """Columns `name`, `channel`, `conversions`, and with `bin_seconds` `bin` (UTC): sessions that started then and have
    a match of the goal."""
    bins = bins_of(rows, selection, bin_seconds) if bin_seconds else None
    current = _current(rows, selection, declared, REACHED)
    frames = [
        _sessions_with(rows, selection, name, goal, bins)
        for name, goal in declared.items()
        if name not in current
    ]
    for part in split(rows, GOLD, selection) if current else ():
        if has(rows, GOLD, part, bins):
            frames.append(_from_gold(rows, part, tuple(current), bins))
        else:
            frames.append(_from_sessions(rows, part, current, bins))
    by = [*(["bin"] if bin_seconds else []), "name", "channel"]
    every = [each[[*by, "conversions"]] for each in frames if len(each)]
    if not every:
        return pd.DataFrame(columns=[*by, "conversions"])
    return in_utc(pd.concat(every).groupby(by, as_index=False)[["conversions"]].sum(), bins)


def _sessions(rows: Rows, selection: Selection, declared: Goals, by: str) -> pd.DataFrame:
    """Columns `by` (site or channel) and `sessions`: of all that started in the range, from the query that gives their
    conversions if there is such a one."""
    current = _current(rows, selection, declared, REACHED)
    if not current or has(rows, SOURCES, selection) or split(rows, GOLD, selection) != (selection,):
        return measured(rows, selection, SESSIONS.of(SOURCES), ["sessions"], by=[by])
    return _by_goals(rows, selection, None).groupby(by, as_index=False)[["sessions"]].sum()


def completions(rows: Rows, selection: Selection, declared: Goals) -> dict[str, int]:
    """By goal, the requests of the range that match it; from silver all in one read."""
    done = dict.fromkeys(declared, 0)
    for part in split(rows, COMPLETIONS, selection):
        completed = _completed(rows, part, declared)
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


def _completed(rows: Rows, selection: Selection, declared: Goals) -> dict[str, int]:
    """The completions of the goals that gold.completions has for the selection, by name."""
    if not has(rows, COMPLETIONS, selection):
        return {}
    current = _current(rows, selection, declared, COMPLETIONS.table)
    if not current:
        return {}
    names, definitions = tuple(current), tuple(current.values())
    kept = (*COMPLETIONS.where(selection), Where("goal", "in", names), Where("definition", "in", definitions))
    columns: Columns = {
        "goal": "goal",
        "definition": "definition",
        "n": total("completions"),
    }
    counted = rows(query(COMPLETIONS.table, columns, kept, group_by=["goal", "definition"]))
    counts = {(goal, definition): int(n) for goal, definition, n in counted.itertuples(index=False)}
    return {name: counts.get((name, definition), 0) for name, definition in current.items()}


def known_goals(rows: Rows) -> dict[str, Goal]:
    """The goals that the pipeline knows, by name."""
    return {name: goal for name, (_, goal) in _recorded(rows).items()}


def _current(rows: Rows, selection: Selection, declared: Goals, table: str) -> dict[str, str]:
    """By name, the hashes of the goals that a table has completely, as they are declared now; none for a recount."""
    if selection.recount or table.replace("/", ".") in incomplete(rows):
        return {}
    recorded = _recorded(rows)
    return {n: recorded[n][0] for n, goal in declared.items() if n in recorded and recorded[n][1] == goal}


def _recorded(rows: Rows) -> dict[str, tuple[str, Goal]]:
    """By name, the definition's hash of each goal that the pipeline knows, and the goal."""
    try:
        text = rows.reader.contract(REACHED).properties.get("goals") or "{}"
    except MissingTableError:
        return {}
    goals: dict[str, dict[str, Any]] = json.loads(text)
    hashes = {name: each.pop("definition", "") for name, each in goals.items()}
    return {name: (hashes[name], goal) for name, goal in goals_of(goals, REACHED).items()}


def _from_gold(rows: Rows, selection: Selection, names: tuple[str, ...], bins: Bins | None) -> pd.DataFrame:
    groups: Columns = {"name": "goal", "channel": "channel"}
    if bins:
        groups["bin"] = bins.of(GOLD.time)
    kept = (*GOLD.where(selection), Where("goal", "in", names))
    columns = {**groups, "conversions": total("conversions")}
    return rows(query(GOLD.table, columns, kept, group_by=list(groups)))


def _from_sessions(
    rows: Rows, selection: Selection, current: Mapping[str, str], bins: Bins | None
) -> pd.DataFrame:
    names = {f"{definition} {name}": name for name, definition in current.items()}
    named = _by_goals(rows, selection, bins)
    named = named.assign(name=[text.split(_SEPARATOR) for text in named["goals"]]).explode("name")
    named = named.assign(name=named["name"].map(names)).dropna(subset=["name"])
    by = [name for name in ("name", "channel", "bin") if name in named]
    return named.groupby(by, as_index=False)[["sessions"]].sum().rename(columns={"sessions": "conversions"})


def _by_goals(rows: Rows, selection: Selection, bins: Bins | None) -> pd.DataFrame:
    """All sessions by the goals that they reach together, which are few: columns `goals`, `site`, `channel`, `bin` with
    bins, and `sessions`."""
    columns: Columns = {"goals": joined("goals", _SEPARATOR), "site": "site"}
    columns |= {"channel": filled("channel")} | ({"bin": bins.of("start_time")} if bins else {})
    kept = (*_of_sessions(selection, rows), Where("pageviews", ">", 0))
    counted = rows(query(REACHED, {**columns, "sessions": count()}, kept, group_by=list(columns)))
    return counted.fillna({"goals": ""})


def _of_sessions(selection: Selection, rows: Rows) -> tuple[Condition, ...]:
    """`conditions.of_sessions` for rows of silver.session_goals, which lack what a visitor has once."""
    own = [f for f in selection.filters if f.field in conditions.OF_SESSION]
    visitor = [f for f in selection.filters if f.field in conditions.OF_VISITOR]
    lines = [f for f in selection.filters if f.field not in conditions.OF_VISITOR | conditions.OF_SESSION]
    kept: list[Condition] = [*conditions.within(selection, "start_time"), *conditions.passing(own)]
    if visitor:
        same: Related = (("session_id", "=", "session_id"),)
        theirs = (*conditions.within(selection, "start_time"), *conditions.passing(visitor))
        kept.append(Exists(silver.SESSIONS, same, theirs))
    if lines:
        kept.append(conditions.with_pageview(selection, lines, rows))
    return tuple(kept)


def _sessions_with(
    rows: Rows, selection: Selection, name: str, goal: Goal, bins: Bins | None
) -> pd.DataFrame:
    """The conversions of a goal by looking for matches during each session."""
    gap = round(rows.reader.contract(silver.SESSIONS).number("gap_seconds") or GAP_SECONDS)
    bound = () if selection.start is None else (Where("event_time", ">=", selection.start),)
    during = Exists(
        silver.REQUESTS,
        (
            ("site", "=", "site"),
            ("visitor_id", "=", "visitor_id"),
            ("event_time", ">=", "start_time"),
            ("event_time", "<", later("end_time", gap)),
        ),
        (*bound, *matching(goal)),
    )
    groups: Columns = {"channel": SESSIONS.columns.get("channel", "channel")}
    if bins:
        groups["bin"] = bins.of("start_time")
    kept = (*conditions.of_sessions(selection, rows), during)
    counted = rows(query(silver.SESSIONS, {**groups, "conversions": count()}, kept, group_by=list(groups)))
    return counted.assign(name=name, channel=counted["channel"].fillna(""))


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
