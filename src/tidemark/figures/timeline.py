"""One session as a timeline: its pageviews and failures in order, the files between them, goals and gaps, and the
visitor's other sessions. All of it is of one person, so only analysts may read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import silver
from tidemark.figures.declared import Goal
from tidemark.figures.goals import matching, of_site
from tidemark.figures.query import Condition, Where, query
from tidemark.figures.rows import Rows

COLUMNS = (
    "session_id", "site", "visitor_id", "start_time", "end_time", "duration_seconds", "pageviews", "entry_page",
    "exit_page", "country", "device", "browser", "os", "channel", "source", "referrer_host", "closed",
)  # fmt: skip
OTHERS = ("session_id", "start_time", "duration_seconds", "pageviews", "entry_page", "exit_page")
MOST_REQUESTS, MOST_OTHERS = 2000, 50
FAILED = 400


@dataclass(frozen=True)
class Timeline:
    """`session` has the columns COLUMNS. `steps` are the pageviews, failures and matches of goals from the oldest:
    columns `event_time`, `method`, `path`, `query`, `status`, `pageview`, `gap` (seconds since the step before, NaN for
    the first), `files` (other requests until the next step) and `goals` (names). `others` are further sessions of the
    visitor with the columns OTHERS, newest first."""

    session: Mapping[str, Any]
    steps: pd.DataFrame = field(repr=False)
    others: pd.DataFrame = field(repr=False)


def timeline(rows: Rows, session_id: str, goals: Mapping[str, Goal], gap: timedelta) -> Timeline | None:
    """The session with an id; None if there is none. A match of a goal until the session `gap` after the last pageview
    is of the session. Raises ReadError, and ForbiddenError for users who may not see single sessions."""
    rows_of_session = rows(query(silver.SESSIONS, COLUMNS, [Where("session_id", "=", session_id)]))
    if rows_of_session.empty:
        return None
    session: Mapping[str, Any] = dict(zip(COLUMNS, rows_of_session.iloc[0], strict=True))
    same = (Where("site", "=", session["site"]), Where("visitor_id", "=", session["visitor_id"]))
    others = rows(
        query(
            silver.SESSIONS,
            OTHERS,
            [*same, Where("session_id", "!=", session_id)],
            order_by=["-start_time"],
            limit=MOST_OTHERS,
        )
    )
    start, end = session["start_time"].to_pydatetime(), session["end_time"].to_pydatetime()
    during = (*same, Where("event_time", ">=", start), Where("event_time", "<", end + gap))
    return Timeline(session, _steps(rows, during, of_site(goals, session["site"])), others)


def session_at(rows: Rows, row: Any) -> str | None:
    """The id of the session in which a request lies, a row with `site`, `visitor_id` and `event_time`; None if it lies
    in none."""
    where = [
        Where("site", "=", row["site"]),
        Where("visitor_id", "=", row["visitor_id"]),
        Where("start_time", "<=", row["event_time"].to_pydatetime()),
    ]
    sessions = rows(query(silver.SESSIONS, ["session_id"], where, order_by=["-start_time"], limit=1))
    return None if sessions.empty else str(sessions["session_id"].iloc[0])


def _steps(rows: Rows, during: tuple[Condition, ...], goals: Mapping[str, Goal]) -> pd.DataFrame:
    columns = ["event_time", "offset", "method", "path", "query", "status", "pageview"]
    order = ["event_time", "offset"]
    lines = rows(query(silver.REQUESTS, columns, during, order_by=order, limit=MOST_REQUESTS))
    reached: dict[tuple[Any, Any], list[str]] = {}
    for name, goal in sorted(goals.items()):
        hits = rows(query(silver.REQUESTS, order, (*during, *matching(goal)), order_by=order))
        for key in hits.itertuples(index=False, name=None):
            reached.setdefault(key, []).append(name)
    lines["goals"] = [reached.get(key, []) for key in lines[order].itertuples(index=False, name=None)]
    is_step = lines["pageview"].astype(bool) | (lines["status"] >= FAILED) | (lines["goals"].str.len() > 0)
    steps = lines[is_step].reset_index(drop=True)
    steps["gap"] = steps["event_time"].diff().dt.total_seconds()
    # The files before the first step belong to none.
    place = np.cumsum(is_step.to_numpy()) - 1
    steps["files"] = np.bincount(place[~is_step & (place >= 0)], minlength=len(steps))
    return steps.drop(columns="offset")
