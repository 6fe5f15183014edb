"""Countries of the visitors, and the other fields that a visitor has once."""

from __future__ import annotations

import pandas as pd

from tidemark.figures.counted import Counted
from tidemark.figures.measures import AUDIENCE, COUNTRIES, LINES, measured
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.selection import Selection

NAMES = ("visitors", "pageviews", "requests")
BY_COUNTRY = LINES.of(COUNTRIES, AUDIENCE)


def countries(rows: Rows, selection: Selection, limit: int | None = None) -> pd.DataFrame:
    """Columns `country` (ISO 3166-1 alpha-2, ZZ where unknown), `visitors`, `pageviews`, `requests`; most visitors
    first."""
    return audience(rows, selection, "country", limit)


def audience(rows: Rows, selection: Selection, field: str, limit: int | None = None) -> pd.DataFrame:
    """The same by country, device, browser, os or bot_kind."""
    counts = measured(rows, selection, counted(field).base, NAMES, by=[field])
    return ordered(counts, ["-visitors", "-requests", field], limit)


def counted(field: str) -> Counted:
    """The visitors by one of these fields, to compare them with an earlier period."""
    base = BY_COUNTRY if field == "country" else LINES.of(AUDIENCE)
    return Counted("visitors", (field,), base)


def visitors(rows: Rows, selection: Selection, bin_seconds: int | None = None) -> pd.DataFrame:
    """Columns `bin` (UTC, with `bin_seconds`), `country`, `visitors`."""
    return measured(rows, selection, BY_COUNTRY, ["visitors"], by=["country"], bin_seconds=bin_seconds)
