"""Conversions and completions of goals from the cheapest table that has them.

gold.goals, gold.completions and silver.session_goals have the goals that the pipeline knows. A goal that has just been
declared, or whose history is being counted, is counted from requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.bins import Bins, bins_of, in_utc
from tidemark.figures.declared import Goal, goals_of
from tidemark.figures.extents import incomplete
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
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

COMPLETIONS = Gold("gold/completions", 3600)
GOLD = Gold("gold/goals", 3600, frozenset({"channel"}))
REACHED = "silver/session_goals"
GAP_SECONDS = 1800
_SEPARATOR = "\n"

# A goal as it is declared, and its conditions on requests.
Wanted = Mapping[str, tuple[Goal, tuple[Condition, ...]]]


def conversions(
    rows: Rows, selection: Selection, wanted: Wanted, bin_seconds: int | None = None
) -> pd.DataFrame:
    """Columns `name`, `channel`, `conversions`, and with `bin_seconds` `bin` (UTC): sessions that started then and have
    a match of the goal."""
    bins = bins_of(rows, selection, bin_seconds) if bin_seconds else None
    current = (
        {} if selection.recount else _current(rows, {n: goal for n, (goal, _) in wanted.items()}, REACHED)
    )
    frames = [
        _from_requests(rows, selection, name, of_goal, bins)
        for name, (_, of_goal) in wanted.items()
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


def sessions(rows: Rows, selection: Selection, wanted: Wanted, by: str) -> pd.DataFrame:
    """Columns `by` (site or channel) and `sessions`: of all that started in the range, from the query that gives their
    conversions if there is such a one."""
    current = (
        {} if selection.recount else _current(rows, {n: goal for n, (goal, _) in wanted.items()}, REACHED)
    )
    if not current or has(rows, SOURCES, selection) or split(rows, GOLD, selection) != (selection,):
        return measured(rows, selection, SESSIONS.of(SOURCES), ["sessions"], by=[by])
    return _by_goals(rows, selection, None).groupby(by, as_index=False)[["sessions"]].sum()


def completed(rows: Rows, selection: Selection, declared: Mapping[str, Goal]) -> dict[str, int]:
    """The completions of the goals that gold.completions has for the selection, by name."""
    if not has(rows, COMPLETIONS, selection):
        return {}
    current = _current(rows, declared, COMPLETIONS.table)
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


def known(rows: Rows) -> dict[str, Goal]:
    """The goals that the pipeline knows, by name."""
    return {name: goal for name, (_, goal) in _recorded(rows).items()}


def _current(rows: Rows, declared: Mapping[str, Goal], table: str) -> dict[str, str]:
    """By name, the hashes of the goals that a table has completely, as they are declared now."""
    if table.replace("/", ".") in incomplete(rows):
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


def _from_requests(
    rows: Rows, selection: Selection, name: str, of_goal: tuple[Condition, ...], bins: Bins | None
) -> pd.DataFrame:
    known = rows.reader.contract(silver.SESSIONS).number("gap_seconds")
    gap = round(known or GAP_SECONDS)
    bound = () if selection.start is None else (Where("event_time", ">=", selection.start),)
    during = Exists(
        silver.REQUESTS,
        (
            ("site", "=", "site"),
            ("visitor_id", "=", "visitor_id"),
            ("event_time", ">=", "start_time"),
            ("event_time", "<", later("end_time", gap)),
        ),
        (*bound, *of_goal),
    )
    groups: Columns = {"channel": SESSIONS.columns.get("channel", "channel")}
    if bins:
        groups["bin"] = bins.of("start_time")
    kept = (*conditions.of_sessions(selection, rows), during)
    counted = rows(query(silver.SESSIONS, {**groups, "conversions": count()}, kept, group_by=list(groups)))
    return counted.assign(name=name, channel=counted["channel"].fillna(""))
