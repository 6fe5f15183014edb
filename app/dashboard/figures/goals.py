"""Goals: requests of people that match, and sessions in which at least one did.

A goal is a pattern of paths (see `walks.matches`), optionally with a status and a method; or a download of a file with
one of these extensions, in any case of letters; or a search. A match belongs to its visitor's session with
start <= time < end + session gap, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from . import conditions
from .measures import PEOPLE
from .query import Condition, Exists, Where, count, later, query
from .rows import Rows
from .selection import Selection

GAP_SECONDS = 1800
_SPECIAL = re.compile(r"[\\.^$|?*+()\[\]{}]")


def goals(rows: Rows, selection: Selection, declared: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Columns `name`, `conversions` (sessions that started in the range) and `completions` (requests in the range) of
    each goal that the selection's site has; in order of names."""
    known = rows.reader.contract(conditions.SESSIONS).number("gap_seconds")
    gap = round(known or GAP_SECONDS)
    found = []
    for name, goal in sorted(declared.items()):
        if goal.get("site") and selection.site not in (None, goal["site"]):
            continue
        of_goal = matching(goal)
        lines = (*conditions.of_lines(selection), *of_goal)
        sessions = (*conditions.of_sessions(selection), _during(of_goal, gap, selection))
        completions = rows(query(conditions.REQUESTS, {"n": count()}, lines))["n"].iloc[0]
        conversions = rows(query(conditions.SESSIONS, {"n": count()}, sessions))["n"].iloc[0]
        found.append((name, int(conversions), int(completions)))
    return pd.DataFrame(found, columns=["name", "conversions", "completions"])


def matching(goal: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Conditions on rows of silver.requests: those of a goal as `tidemark.toml` declares it."""
    found: list[Condition] = [PEOPLE]
    if goal.get("site"):
        found.append(Where("site", "=", goal["site"]))
    if goal.get("status"):
        found.append(Where("status", "=", int(goal["status"])))
    if goal.get("method"):
        found.append(Where("method", "=", goal["method"]))
    if goal.get("search"):
        found.append(Where("search_term", "is not null"))
    elif goal.get("download"):
        extensions = "|".join(_literal(str(e).lstrip(".")) for e in goal["download"])
        found.append(Where("path", "matches", rf"(?is)^.*\.({extensions})$"))
    else:
        found.append(_path(str(goal.get("path", ""))))
    return tuple(found)


def _path(pattern: str) -> Condition:
    if "*" not in pattern:
        return Where("path", "=", pattern)
    return Where("path", "matches", "(?s)^" + ".*".join(map(_literal, pattern.split("*"))) + "$")


def _literal(text: str) -> str:
    """Text for a regular expression of any engine, which takes it as it is."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def _during(of_goal: tuple[Condition, ...], gap: int, selection: Selection) -> Exists:
    """Sessions with a match."""
    bound = () if selection.start is None else (Where("event_time", ">=", selection.start),)
    during = (
        ("site", "=", "site"),
        ("visitor_id", "=", "visitor_id"),
        ("event_time", ">=", "start_time"),
        ("event_time", "<", later("end_time", gap)),
    )
    return Exists(conditions.REQUESTS, during, (*bound, *of_goal))
