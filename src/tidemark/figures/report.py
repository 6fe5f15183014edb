"""The figures of each report of report_specs.py, as JSON and as a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import (
    alerts,
    bots,
    countries,
    errors,
    explain,
    extents,
    funnels,
    goals,
    latency,
    lines,
    networks,
    overview,
    pages,
    paths,
    reported,
    retention,
    sources,
    suspected,
)
from tidemark.figures.declared import Kind
from tidemark.figures.numbers import NUMBERS
from tidemark.figures.permitted import ForbiddenError
from tidemark.figures.question import Asked, Question
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, SelectionError


@dataclass(frozen=True)
class Report:
    """`table` has the same figures as `json`, in rows and columns. `filling`: tables whose history is being filled, so
    that the figures were counted from silver."""

    json: dict[str, Any]
    table: pd.DataFrame
    filling: tuple[str, ...] = ()


# The remedy for a name that is not declared.
DEFINED = "Use a name that `definitions` lists, or declare it in the home's tidemark.toml."

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
    try:
        definition = asked.declared.funnel(asked.name)
    except SelectionError as error:
        raise SelectionError(f"name: {error.problem}", error.remedy or DEFINED) from error
    found = funnels.funnel(rows, selection, definition).table()
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
    levels = paths.paths(
        rows, selection, asked.from_page or asked.to_page, backward=asked.to_page is not None
    ).levels
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


def _explain(rows: Rows, selection: Selection, asked: Asked) -> Report:
    extent = extents.of_site(extents.extents(rows), selection.site)
    period = explain.period_before(selection, extent)
    found = explain.explain(rows, asked.name, selection, period, asked.declared)
    about = {
        "metric": found.metric,
        "now": found.now,
        "before": found.before,
        "change": found.change,
        "from": _iso(selection.start),
        "to": _iso(selection.end),
        "before_from": _iso(period.start),
        "before_to": _iso(period.end),
        "same": list(found.same),
    }
    listed = found.rows.assign(filters=found.rows["filters"].map(list))
    overlaps = [{"dimension": name, "about": text} for name, text in found.overlaps.items()]
    table = found.rows.assign(filters=found.rows["filters"].map(" ".join))
    return Report({**about, "rows": records(listed), "overlaps": overlaps}, table)


REPORTS: dict[str, Make] = {
    "overview": _overview,
    "latency": _latency,
    "sources": _of_rows(sources.sources),
    "pages": _of_rows(pages.with_sessions),
    "countries": _of_rows(countries.countries),
    "networks": _of_rows(networks.networks),
    "errors": _of_rows(errors.errors),
    "bots": _bots,
    "ai": _ai,
    "funnel": _funnel,
    "retention": _retention,
    "goals": _goals,
    "paths": _paths,
    "alerts": _alerts,
    "reported": _reported,
    "explain": _explain,
}


def report(rows: Rows, question: Question) -> Report:
    """The report that a question is for. Raises SelectionError for a site or a definition that is not there,
    MissingTableError and ReadError."""
    selection = question.selection
    filling = tuple(table for table in extents.incomplete(rows) if table.startswith("gold."))
    if filling:
        selection = replace(selection, recount=True)
    require_site(rows, selection.site)
    make = {**REPORTS, **OTHERS}[question.spec.name]
    found = make(rows, selection, question.asked)
    return replace(found, filling=filling)


def require_site(rows: Rows, site: str | None) -> None:
    """Raises SelectionError for a site that is not there."""
    known = extents.extents(rows)
    if site is not None and known and site not in known:
        raise SelectionError(
            f"site: there is no site {site!r}", f"There are: {', '.join(sorted(known)[:20])}."
        )


def _sites(rows: Rows, selection: Selection, asked: Asked) -> Report:
    found = pd.DataFrame(
        [(site, each.first, each.newest) for site, each in sorted(extents.extents(rows).items())],
        columns=["site", "first_event_time", "newest_event_time"],
    )
    return Report({"sites": records(found)}, found)


def _definitions(rows: Rows, selection: Selection, asked: Asked) -> Report:
    """The table has the numbers."""
    numbers = [{"name": name, "about": about} for name, about in NUMBERS.items()]
    kinds: dict[str, Kind] = {"goal": "goals", "funnel": "funnels", "segment": "segments"}
    declared = [
        {"kind": kind, "name": name, "values": dict(values)}
        for kind, tables in kinds.items()
        for name, values in sorted(asked.declared.of(tables).items())
    ]
    return Report({"numbers": numbers, "declared": declared}, pd.DataFrame(numbers))


def _lines(rows: Rows, selection: Selection, asked: Asked) -> Report:
    limit = lines.USUAL if asked.limit is None else asked.limit
    if not 1 <= limit <= lines.MOST:
        raise SelectionError(f"limit: {limit} is too few or too many", f"Give 1 to {lines.MOST}.")
    found, cursor = lines.lines(rows, selection, limit, asked.cursor)
    return Report({"next": cursor, "lines": records(found)}, found)


OTHERS: dict[str, Make] = {"sites": _sites, "definitions": _definitions, "lines": _lines}


def _of_numbers(found: dict[str, Any]) -> Report:
    return Report(
        found, pd.DataFrame({"figure": list(found), "value": pd.Series(list(found.values()), dtype=object)})
    )


def json_text(answer: dict[str, Any]) -> str:
    """An answer as JSON text, the same wherever it is given."""
    return json.dumps(answer, indent=2) + "\n"


def records(found: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them: times in ISO 8601, None for what is missing."""
    return [{str(name): _plain(value) for name, value in row.items()} for row in found.to_dict("records")]


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _plain(value: Any) -> Any:
    if value is pd.NaT:
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
