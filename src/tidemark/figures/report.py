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
    drill,
    errors,
    explain,
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
from tidemark.figures.declared import Kind
from tidemark.figures.numbers import NUMBERS
from tidemark.figures.overview import Overview
from tidemark.figures.permitted import ForbiddenError
from tidemark.figures.quantiles import Latency
from tidemark.figures.question import Parameters, Question
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

Make = Callable[[Rows, Selection, Parameters], Report]


def _of_numbers(figures: Overview | Latency) -> Report:
    numbers = asdict(figures)
    return Report(
        numbers,
        pd.DataFrame({"figure": list(numbers), "value": pd.Series(list(numbers.values()), dtype=object)}),
    )


def _of_rows(frame: pd.DataFrame, name: str = "rows") -> Report:
    return Report({name: records(frame)}, frame)


def _funnel(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    try:
        definition = parameters.declared.funnel(parameters.name)
    except SelectionError as error:
        raise SelectionError(f"name: {error.problem}", error.remedy or DEFINED) from error
    return _of_rows(funnels.funnel(rows, selection, definition).table(), "steps")


def _retention(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    """Of the cohorts that begin in the range."""
    extent = extents.of_site(extents.extents(rows), selection.site)
    counted = retention.retention(rows, selection, parameters.by, extent)
    cohorts = [
        {
            "start": counted.periods[i].isoformat(),
            "size": round(float(counted.sizes[i])),
            "returned": counted.returned(i),
        }
        for i in retention.within(counted, selection)
    ]
    returned = pd.DataFrame([c["returned"] for c in cohorts], dtype="Int64")
    table = pd.DataFrame({name: [c[name] for c in cohorts] for name in ("start", "size")}).join(returned)
    return Report(
        {"cohorts": cohorts, "open_from": counted.open_from.isoformat() if counted.open_from else None}, table
    )


def _paths(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    levels = paths.paths(
        rows, selection, parameters.from_page or parameters.to_page, backward=parameters.to_page is not None
    ).levels
    table = pd.concat([level.assign(level=i) for i, level in enumerate(levels)], ignore_index=True)
    return Report({"levels": [records(level) for level in levels]}, table[["level", "path", "count"]])


def _bots(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    """Also what the table leaves out: `suspected`, the days of visitors that behave like bots, and `people`, those of
    each day with and without them. No days of single visitors for those who may not see them."""
    frame = bots.bots(rows, selection)
    known = rows.reader.version(suspected.TABLE) is not None
    days = []
    with suppress(ForbiddenError):
        days = records(suspected.suspected(rows, selection)) if known else []
    people = records(suspected.beside(rows, selection)) if known else []
    return Report({"rows": records(frame), "suspected": days, "people": people}, frame)


def _ai(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    frame = bots.ai_operators(rows, selection)
    return Report({"rows": records(frame)}, frame.assign(bots=frame["bots"].map(", ".join)))


def _alerts(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    """Also `rules`, how they stand; the table leaves them out, and most of an alert's columns."""
    frame = alerts.alerts(rows, selection)
    table = frame[
        ["window_start", "rule", "site", "state", "value", "bound", "ended_at", "delivered_at", "about"]
    ]
    return Report({"rules": records(alerts.rules(rows, selection)), "alerts": records(frame)}, table)


def _explain(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    extent = extents.of_site(extents.extents(rows), selection.site)
    period = explain.period_before(selection, extent)
    explained = explain.explain(rows, parameters.name, selection, period, parameters.declared)
    about = {
        "metric": explained.metric,
        "now": explained.now,
        "before": explained.before,
        "change": explained.change,
        "from": _iso(selection.start),
        "to": _iso(selection.end),
        "before_from": _iso(period.start),
        "before_to": _iso(period.end),
        "same": list(explained.same),
    }
    listed = explained.rows.assign(filters=explained.rows["filters"].map(list))
    overlaps = [{"dimension": name, "about": text} for name, text in explained.overlaps.items()]
    table = explained.rows.assign(filters=explained.rows["filters"].map(" ".join))
    return Report({**about, "rows": records(listed), "overlaps": overlaps}, table)


def report(rows: Rows, question: Question) -> Report:
    """The report that a question is for. Raises SelectionError for a site or a definition that is not there,
    MissingTableError and ReadError."""
    selection = question.selection
    filling = tuple(table for table in extents.incomplete(rows) if table.startswith("gold."))
    if filling:
        selection = replace(selection, recount=True)
    require_site(rows, selection.site)
    make = {**REPORTS, **OTHERS}[question.spec.name]
    result = make(rows, selection, question.parameters)
    return replace(result, filling=filling)


def require_site(rows: Rows, site: str | None) -> None:
    """Raises SelectionError for a site that is not there."""
    known = set() if site is None else extents.sites(rows)
    if known and site not in known:
        raise SelectionError(
            f"site: there is no site {site!r}", f"There are: {', '.join(sorted(known)[:20])}."
        )


def _sites(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    frame = pd.DataFrame(
        [(site, each.first, each.newest) for site, each in sorted(extents.extents(rows).items())],
        columns=["site", "first_event_time", "newest_event_time"],
    )
    return _of_rows(frame, "sites")


def _definitions(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    """The table has the numbers."""
    numbers = [{"name": name, "about": about} for name, about in NUMBERS.items()]
    kinds: dict[str, Kind] = {"goal": "goals", "funnel": "funnels", "segment": "segments"}
    declared = [
        {"kind": kind, "name": name, "values": dict(values)}
        for kind, tables in kinds.items()
        for name, values in sorted(parameters.declared.of(tables).items())
    ]
    return Report({"numbers": numbers, "declared": declared}, pd.DataFrame(numbers))


def _lines(rows: Rows, selection: Selection, parameters: Parameters) -> Report:
    limit = drill.USUAL_LINES if parameters.limit is None else parameters.limit
    if not 1 <= limit <= drill.MOST_LINES:
        raise SelectionError(f"limit: {limit} is too few or too many", f"Give 1 to {drill.MOST_LINES}.")
    frame, cursor = drill.lines(rows, selection, limit, parameters.cursor)
    return Report({"next": cursor, "lines": records(frame)}, frame)


REPORTS: dict[str, Make] = {
    "overview": lambda rows, selection, _: _of_numbers(overview.overview(rows, selection)),
    "latency": lambda rows, selection, _: _of_numbers(latency.latency(rows, selection)),
    "sources": lambda rows, selection, _: _of_rows(sources.sources(rows, selection)),
    "pages": lambda rows, selection, _: _of_rows(pages.with_sessions(rows, selection)),
    "countries": lambda rows, selection, _: _of_rows(countries.countries(rows, selection)),
    "networks": lambda rows, selection, _: _of_rows(networks.networks(rows, selection)),
    "errors": lambda rows, selection, _: _of_rows(errors.errors(rows, selection)),
    "bots": _bots,
    "ai": _ai,
    "funnel": _funnel,
    "retention": _retention,
    "goals": lambda rows, selection, its: _of_rows(goals.goals(rows, selection, its.declared.goals), "goals"),
    "paths": _paths,
    "alerts": _alerts,
    "reported": lambda rows, selection, its: _of_rows(reported.changes(rows, selection, its.as_of), "days"),
    "explain": _explain,
}
OTHERS: dict[str, Make] = {"sites": _sites, "definitions": _definitions, "lines": _lines}


def json_text(answer: dict[str, Any]) -> str:
    """An answer as JSON text, the same wherever it is given."""
    return json.dumps(answer, indent=2) + "\n"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them: times in ISO 8601, None for what is missing."""
    return [{str(name): _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


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
