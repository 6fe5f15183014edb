"""Where sessions come from: channel, source, medium and campaign of the entry pageview."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tidemark.figures.counted import Counted
from tidemark.figures.measures import SESSIONS, SOURCES, measured
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

KEY = ("channel", "source", "medium", "campaign")
NAMES = ("sessions", "bounces", "pageviews", "visitors")
_SESSIONS = SESSIONS.of(SOURCES)


def sources(
    rows: Rows, selection: Selection, by: Sequence[str] = KEY, limit: int | None = None
) -> pd.DataFrame:
    """Columns `by`, `sessions`, `bounces`, `pageviews`, `visitors`; most sessions first."""
    order = ["-sessions", *by]
    return measured(rows, selection, _SESSIONS, NAMES, by=by, order_by=order, limit=limit)


def counted(by: Sequence[str]) -> Counted:
    """The sessions by these columns, to compare them with an earlier period."""
    return Counted("sessions", tuple(by), _SESSIONS)


def over_time(rows: Rows, selection: Selection, bin_seconds: int) -> pd.DataFrame:
    """Columns `bin` (UTC), `channel`, `sessions`."""
    return measured(rows, selection, _SESSIONS, ["sessions"], by=["channel"], bin_seconds=bin_seconds)
