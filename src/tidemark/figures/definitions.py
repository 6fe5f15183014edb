"""Every figure as SQL that DuckDB runs on the same tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidemark.figures import (
    alerts,
    bots,
    countries,
    drill,
    errors,
    latency,
    networks,
    notes,
    overview,
    pages,
    reported,
    searches,
    sessions,
    sources,
    suspected,
)
from tidemark.figures.dialects import DuckDB
from tidemark.figures.query import AGGREGATES, Expression, Query
from tidemark.figures.reader import Contract, Version
from tidemark.figures.render import clauses
from tidemark.figures.rows import Direct, Rows
from tidemark.figures.selection import Selection

DAY = 86_400
# Every figure that has a query, by the name under which a page asks for it.
Figure = Callable[[Rows, Selection], Any]
FIGURES: dict[str, Figure] = {
    "overview": overview.overview,
    "overview over time": lambda rows, selection: overview.over_time(rows, selection, DAY),
    "pages": pages.pages,
    "countries": countries.countries,
    "devices": lambda rows, selection: countries.audience(rows, selection, "device"),
    "browsers": lambda rows, selection: countries.audience(rows, selection, "browser"),
    "systems": lambda rows, selection: countries.audience(rows, selection, "os"),
    "sessions": sessions.summary,
    "sessions over time": lambda rows, selection: sessions.over_time(rows, selection, DAY),
    "entry pages": lambda rows, selection: sessions.by(rows, selection, "entry_page"),
    "exit pages": lambda rows, selection: sessions.by(rows, selection, "exit_page"),
    "sources": sources.sources,
    "latency": latency.counts,
    "latency over time": lambda rows, selection: latency.counts(rows, selection, DAY),
    "slowest pages": latency.page_counts,
    "statuses": errors.statuses,
    "errors": errors.errors,
    "bots": bots.bots,
    "ai": lambda rows, selection: bots.ai(rows, selection, DAY),
    "suspected": suspected.suspected,
    "ai operators": bots.ai_operators,
    "pretenders": bots.pretenders,
    "people beside": suspected.beside,
    "networks": networks.networks,
    "cities": networks.cities,
    "searches": searches.searches,
    "downloads": searches.downloads,
    "rows": drill.newest,
    "alert rules": alerts.rules,
    "alerts": alerts.alerts,
    "notes": lambda rows, selection: notes.notes(rows, selection.site),
    "reported": reported.reports,
}


def sql(figure: str | Figure, selection: Selection, root: str) -> str:
    """The statements of a figure as DuckDB's delta extension runs them, counted from silver: `figure` is the name of
    one of FIGURES or another figure, `root` the directory or URL of the tables. Latencies come as counts per bucket.
    Raises KeyError for a name that has no query."""
    nothing = _Nothing()
    make = FIGURES[figure] if isinstance(figure, str) else figure
    # Without a range it is not known how the zone's clocks were set.
    zone = "UTC" if selection.start is None else selection.zone
    make(Direct(nothing), replace(selection, recount=True, zone=zone))
    return ";\n\n".join(text(q, root) for q in dict.fromkeys(nothing.queries)) + ";\n"


def text(q: Query, root: str) -> str:
    """One query as a statement for DuckDB."""

    def source(table: str) -> str:
        place = f"{root.rstrip('/')}/{table}"
        return "delta_scan('" + place.replace("'", "''") + "')"

    return "\n".join(clauses(q, source, DuckDB()))


@dataclass(frozen=True)
class _Nothing:
    """A reader of empty tables, which remembers what was asked: a figure asks the same of them."""

    queries: list[Query] = field(default_factory=list)
    label: str = ""
    root: str = ""

    def version(self, table: str) -> Version | None:
        return None

    def contract(self, table: str) -> Contract:
        none: Mapping[str, str] = {}
        return Contract(none, none)

    def files(self, table: str, time: str) -> None:
        return None

    def arrow(self, q: Query) -> Any:
        import pyarrow as pa

        self.queries.append(q)
        sums = any(isinstance(spec, Expression) and spec.kind in AGGREGATES for _, spec in q.columns)
        values = pa.array([0]) if sums and not q.group_by else pa.array([], pa.string())
        return pa.table(dict.fromkeys((name for name, _ in q.columns), values))

    def coded(self, q: Query, names: Sequence[str]) -> Any:
        return self.arrow(q)
