"""Current traffic: counts per minute, and visitors by country in short windows."""

from __future__ import annotations

import pandas as pd

from tidemark.figures.measures import AUDIENCE, COUNTRIES, LINES, TRAFFIC, measured
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

MINUTE = 60
SUMS = ("requests", "pageviews", "visitors")


def minutes(rows: Rows, selection: Selection) -> pd.DataFrame:
    """Columns `bin` (UTC), `requests`, `pageviews`, `visitors` (distinct within the minute)."""
    return measured(rows, selection, LINES.of(TRAFFIC), SUMS, bin_seconds=MINUTE, order_by=["bin"])


def visitors(rows: Rows, selection: Selection) -> int:
    """Distinct visitors of the whole selection."""
    return int(measured(rows, selection, LINES.of(TRAFFIC), ["visitors"])["visitors"].iloc[0])


def by_country(rows: Rows, selection: Selection, bin_seconds: int | None = None) -> pd.DataFrame:
    """Columns `bin` (UTC, with `bin_seconds`), `country`, `visitors`."""
    base = LINES.of(COUNTRIES, AUDIENCE)
    return measured(rows, selection, base, ["visitors"], by=["country"], bin_seconds=bin_seconds)
