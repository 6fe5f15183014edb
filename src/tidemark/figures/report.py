"""What `tidemark report` prints: the figures of a page as JSON, or as a table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import (
    alerts,
    bots,
    countries,
    errors,
    extents,
    funnels,
    goals,
    latency,
    networks,
    overview,
    pages,
    paths,
    reported,
    retention,
    sources,
    suspected,
)
from tidemark.figures.declared import Declared
from tidemark.figures.permitted import ForbiddenError
from tidemark.figures.retention import By
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection


@dataclass(frozen=True)
class Report:
    """`table` has the same figures as `json`, in rows and columns."""

    json: dict[str, Any]
    table: pd.DataFrame


@dataclass(frozen=True)
class Asked:
    """Further arguments of some reports: the `name` of a funnel that is `declared`, the length of periods, a page
    and a direction from it, the time of a report."""

    declared: Declared = field(default_factory=Declared)
    name: str = ""
    by: By = "day"
    page: str | None = None
    backward: bool = False
    as_of: datetime | None = None


Make = Callable[[Rows, Selection, Asked], Report]


def _overview(rows: Rows, selection: Selection, asked: Asked) -> Report:
    return _of_numbers(asdict(overview.overview(rows, selection)))


def _latency(rows: Rows, selection: Selection, asked: Asked) -> Report:
    return _of_numbers(asdict(latency.latency(rows, selection)))


def _of_rows(make: Callable[[Rows, Selection], pd.DataFrame]) -> Make:
    def report(rows: Rows, selection: Selection, asked: Asked) -> Report:
        found = make(rows, selection)
        return Report({"rows": records(found)}, found)

    return report


def _funnel(rows: Rows, selection: Selection, asked: Asked) -> Report:
    found = funnels.funnel(rows, selection, asked.declared.funnel(asked.name)).table()
    return Report({"steps": records(found)}, found)


def _retention(rows: Rows, selection: Selection, asked: Asked) -> Report:
    """Of the cohorts that begin in the range."""
    extent = extents.of_site(extents.extents(rows), selection.site)
    found = retention.retention(rows, selection, asked.by, extent)
    cohorts = [
        {
            "start": found.periods[i].isoformat(),
            "size": round(float(found.sizes[i])),
            "returned": found.returned(i),
        }
        for i in retention.within(found, selection)
    ]
    returned = pd.DataFrame([c["returned"] for c in cohorts], dtype="Int64")
    table = pd.DataFrame({name: [c[name] for c in cohorts] for name in ("start", "size")}).join(returned)
    return Report(
        {"cohorts": cohorts, "open_from": found.open_from.isoformat() if found.open_from else None}, table
    )


def _goals(rows: Rows, selection: Selection, asked: Asked) -> Report:
    found = goals.goals(rows, selection, asked.declared.goals)
    return Report({"goals": records(found)}, found)


def _paths(rows: Rows, selection: Selection, asked: Asked) -> Report:
    levels = paths.paths(rows, selection, asked.page, backward=asked.backward).levels
    table = pd.concat([level.assign(level=i) for i, level in enumerate(levels)], ignore_index=True)
    return Report({"levels": [records(level) for level in levels]}, table[["level", "path", "count"]])


def _bots(rows: Rows, selection: Selection, asked: Asked) -> Report:
    """Also what the table leaves out: `suspected`, the days of visitors that behave like bots, and `people`, those of
    each day with and without them. No days of single visitors for those who may not see them."""
    found = bots.bots(rows, selection)
    known = rows.reader.version(suspected.TABLE) is not None
    days = []
    with suppress(ForbiddenError):
        days = records(suspected.suspected(rows, selection)) if known else []
    people = records(suspected.beside(rows, selection)) if known else []
    return Report({"rows": records(found), "suspected": days, "people": people}, found)


def _ai(rows: Rows, selection: Selection, asked: Asked) -> Report:
    found = bots.ai_operators(rows, selection)
    return Report({"rows": records(found)}, found.assign(bots=found["bots"].map(", ".join)))


def _alerts(rows: Rows, selection: Selection, asked: Asked) -> Report:
    """Also `rules`, how they stand; the table leaves them out, and most of an alert's columns."""
    found = alerts.alerts(rows, selection)
    table = found[
        ["window_start", "rule", "site", "state", "value", "bound", "ended_at", "delivered_at", "about"]
    ]
    return Report({"rules": records(alerts.rules(rows, selection)), "alerts": records(found)}, table)


def _reported(rows: Rows, selection: Selection, asked: Asked) -> Report:
    found = reported.changes(rows, selection, asked.as_of)
    return Report({"days": records(found)}, found)


REPORTS: dict[str, Make] = {
    "overview": _overview,
    "latency": _latency,
    "sources": _of_rows(sources.sources),
    "pages": _of_rows(pages.with_sessions),
    "countries": _of_rows(countries.countries),
    "errors": _of_rows(errors.errors),
    "networks": _of_rows(networks.networks),
    "bots": _bots,
    "ai": _ai,
    "funnel": _funnel,
    "retention": _retention,
    "goals": _goals,
    "paths": _paths,
    "alerts": _alerts,
    "reported": _reported,
}


def _of_numbers(found: dict[str, Any]) -> Report:
    return Report(
        found, pd.DataFrame({"figure": list(found), "value": pd.Series(list(found.values()), dtype=object)})
    )


def records(found: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them: times in ISO 8601, None for what is missing."""
    return [{str(name): _plain(value) for name, value in row.items()} for row in found.to_dict("records")]


def _plain(value: Any) -> Any:
    if value is pd.NaT:
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
