"""Figures of sessions that started in the range."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.bins import bins_of, in_utc
from tidemark.figures.counted import Counted
from tidemark.figures.measures import SESSIONS, measured
from tidemark.figures.query import (
    Columns,
    Condition,
    Exists,
    bucket,
    count,
    count_true,
    filled,
    median,
    query,
    total,
)
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection

ENDS = ("entry_page", "exit_page")


@dataclass(frozen=True)
class Summary:
    """`duration` is the median in seconds; rates are None where there are no sessions."""

    sessions: int
    closed: int
    bounced: int
    pageviews: int
    duration: float | None

    @property
    def bounce_rate(self) -> float | None:
        return self.bounced / self.sessions if self.sessions else None

    @property
    def pages_per_session(self) -> float | None:
        return self.pageviews / self.sessions if self.sessions else None


def summary(rows: Rows, selection: Selection) -> Summary:
    columns = {
        "sessions": count(),
        "closed": count_true("closed"),
        "bounced": count_true("bounced"),
        "pageviews": total("pageviews"),
        "duration": median("duration_seconds"),
    }
    sums = rows(query(silver.SESSIONS, columns, conditions.of_sessions(selection, rows))).iloc[0]
    return Summary(
        sessions=int(sums["sessions"]),
        closed=int(sums["closed"]),
        bounced=int(sums["bounced"]),
        pageviews=int(sums["pageviews"]),
        duration=None if pd.isna(sums["duration"]) else float(sums["duration"]),
    )


def has_any(rows: Rows) -> bool:
    """Whether there is a session of any time: the first ones follow the first lines after some seconds."""
    return bool(rows(query(silver.SESSIONS, {"sessions": count()}))["sessions"].iloc[0])


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `sessions`, `bounces`, by when sessions started."""
    return measured(rows, selection, SESSIONS, ["sessions", "bounces"], bin_seconds=bin_seconds)


def duration_over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC) and `duration`, the median in seconds of the sessions that started in it."""
    bins = bins_of(rows, selection, bin_seconds)
    columns: Columns = {"bin": bins.of("start_time"), "duration": median("duration_seconds")}
    where = conditions.of_sessions(selection, rows)
    return in_utc(rows(query(silver.SESSIONS, columns, where, group_by=["bin"], order_by=["bin"])), bins)


def durations(rows: Rows, selection: Selection, bounds: tuple[int, ...]) -> pd.DataFrame:
    """Columns `bucket`, the index of the first bound in seconds above a session's duration, and `sessions`."""
    columns = {"bucket": bucket("duration_seconds", bounds), "sessions": count()}
    where = conditions.of_sessions(selection, rows)
    return rows(query(silver.SESSIONS, columns, where, group_by=["bucket"], order_by=["bucket"]))


def by(rows: Rows, selection: Selection, column: str, limit: int | None = None) -> pd.DataFrame:
    """Columns `column` (such as entry_page or exit_page), `sessions`, `bounces`, most sessions first."""
    if column in ENDS and not selection.recount:
        return _of_end(ends(rows, selection), column, limit)
    names, order = ["sessions", "bounces"], ["-sessions", column]
    return measured(rows, selection, SESSIONS, names, by=[column], order_by=order, limit=limit)


def by_ends(rows: Rows, selection: Selection) -> tuple[pd.DataFrame, pd.DataFrame]:
    """As `by` with the entry page, and with the exit page."""
    if selection.recount:
        return by(rows, selection, "entry_page"), by(rows, selection, "exit_page")
    both = ends(rows, selection)
    return _of_end(both, "entry_page"), _of_end(both, "exit_page")


def _of_end(both: pd.DataFrame, column: str, limit: int | None = None) -> pd.DataFrame:
    counts = both.dropna(subset=[column])[[column, "sessions", "bounces"]]
    return ordered(counts, ["-sessions", column], limit)


def ends(rows: Rows, selection: Selection) -> pd.DataFrame:
    """Columns ENDS, one of which is missing, `sessions`, `bounces`: by where sessions began, and by where they ended.
    One query, because filters of lines are costly."""
    columns: Columns = {name: filled(name) for name in ENDS}
    columns |= {name: SESSIONS.measures[name] for name in ("sessions", "bounces")}
    where = conditions.of_sessions(selection, rows)
    return rows(query(silver.SESSIONS, columns, where, group_by=ENDS, apart=True))


def counted(column: str) -> Counted:
    """The sessions by this column, to compare them with an earlier period."""
    return Counted("sessions", (column,), SESSIONS)


def during(selection: Selection, *where: Condition) -> Condition:
    """Keeps the lines during the selection's sessions that `where` keeps, too. Only filters of sessions' own columns
    are regarded."""
    own = [f for f in selection.filters if f.field in conditions.OF_VISITOR | conditions.OF_SESSION]
    kept = (*conditions.within(selection, "start_time"), *conditions.passing(own), *where)
    return Exists(silver.SESSIONS, conditions.DURING, kept)


LATEST = (
    "session_id", "start_time", "end_time", "visitor_id", "site", "country", "duration_seconds", "pageviews",
    "entry_page", "exit_page", "closed", "browser", "os", "device", "channel", "source", "referrer_host",
)  # fmt: skip


def latest(rows: Rows, selection: Selection, limit: int) -> pd.DataFrame:
    """The sessions that started last, with the columns LATEST."""
    where = conditions.of_sessions(selection, rows)
    return rows(query(silver.SESSIONS, LATEST, where, order_by=["-start_time"], limit=limit))
