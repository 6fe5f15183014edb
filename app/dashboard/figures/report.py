"""What `tidemark report` prints: the figures of a page as JSON, or as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from . import bots, countries, errors, latency, overview, pages, sources
from .rows import Rows
from .selection import Selection


@dataclass(frozen=True)
class Report:
    """`table` has the same figures as `json`, in rows and columns."""

    json: dict[str, Any]
    table: pd.DataFrame


Make = Callable[[Rows, Selection], Report]


def _overview(rows: Rows, selection: Selection) -> Report:
    return _of_numbers(asdict(overview.overview(rows, selection)))


def _latency(rows: Rows, selection: Selection) -> Report:
    return _of_numbers(asdict(latency.latency(rows, selection)))


def _of_rows(make: Callable[[Rows, Selection], pd.DataFrame]) -> Make:
    def report(rows: Rows, selection: Selection) -> Report:
        found = make(rows, selection)
        return Report({"rows": records(found)}, found)

    return report


REPORTS: dict[str, Make] = {
    "overview": _overview,
    "latency": _latency,
    "sources": _of_rows(sources.sources),
    "pages": _of_rows(pages.with_sessions),
    "countries": _of_rows(countries.countries),
    "errors": _of_rows(errors.errors),
    "bots": _of_rows(bots.bots),
}


def _of_numbers(found: dict[str, Any]) -> Report:
    return Report(
        found, pd.DataFrame({"figure": list(found), "value": pd.Series(list(found.values()), dtype=object)})
    )


def records(found: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them: times in ISO 8601, None for what is missing."""
    return [{name: _plain(value) for name, value in row.items()} for row in found.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
