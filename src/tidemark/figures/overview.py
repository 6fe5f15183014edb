"""The main figures of a selection and their change."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

import pandas as pd

from tidemark.figures import comparison, sessions
from tidemark.figures.comparison import Change
from tidemark.figures.extents import Extent
from tidemark.figures.measures import AUDIENCE, LINES, TRAFFIC, measured
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

SUMS = ("requests", "pageviews", "visitors")
MINUTE = 60
_TRAFFIC = LINES.of(TRAFFIC)


@dataclass(frozen=True)
class Overview:
    """`bounce_rate` (0 to 1) and `duration` (median, seconds) are None where there are no sessions."""

    requests: int
    pageviews: int
    visitors: int
    sessions: int
    bounce_rate: float | None
    duration: float | None


def overview(rows: Rows, selection: Selection) -> Overview:
    lines = measured(rows, selection, LINES.of(TRAFFIC, AUDIENCE), SUMS).iloc[0]
    summary = sessions.summary(rows, selection)
    requests, pageviews, visitors = (int(lines[name]) for name in SUMS)
    return Overview(requests, pageviews, visitors, summary.sessions, summary.bounce_rate, summary.duration)


def changes(rows: Rows, selection: Selection, extent: Extent, clock: datetime) -> dict[str, Change]:
    """Each figure of the overview with the same of the period that the selection is compared with, if there is one."""
    now = overview(rows, selection)
    period = comparison.earlier(selection, extent, clock)
    before = None if period is None else overview(rows, period)
    names = [f.name for f in fields(Overview)]
    return {n: Change(getattr(now, n), None if before is None else getattr(before, n)) for n in names}


def over_time(rows: Rows, selection: Selection, bin_seconds: int, *, visitors: bool = True) -> pd.DataFrame:
    """Columns `bin` (UTC), `requests`, `pageviews`, `bytes`, `bot_requests`, and `visitors`, which take longest; bins
    without lines are missing."""
    gold = AUDIENCE if selection.filters else TRAFFIC
    names = ["requests", "pageviews", "bytes", *(["visitors"] if visitors else [])]
    names += ["bot_requests"] if gold is TRAFFIC else []
    return measured(rows, selection, LINES.of(gold), names, bin_seconds=bin_seconds, order_by=["bin"])


def figure_over_time(rows: Rows, selection: Selection, bin_seconds: int, name: str) -> pd.DataFrame:
    """Columns `bin` (UTC) and the field `name` of the overview; bins without lines are missing."""
    if name == "duration":
        return sessions.duration_over_time(rows, selection, bin_seconds)
    if name in ("sessions", "bounce_rate"):
        counts = sessions.over_time(rows, selection, bin_seconds)
        counts["bounce_rate"] = counts["bounces"] / counts["sessions"]
    else:
        counts = over_time(rows, selection, bin_seconds, visitors=name == "visitors")
    return counts[["bin", name]]


def by_minute(rows: Rows, selection: Selection) -> pd.DataFrame:
    """Columns `bin` (UTC), and SUMS; visitors are distinct within the minute."""
    return measured(rows, selection, _TRAFFIC, SUMS, bin_seconds=MINUTE, order_by=["bin"])


def visitors(rows: Rows, selection: Selection) -> int:
    """Distinct visitors of a selection of whole minutes."""
    return int(measured(rows, selection, _TRAFFIC, ["visitors"])["visitors"].iloc[0])
