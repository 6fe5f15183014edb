"""Every figure as SQL that DuckDB runs on the same tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidemark.figures.dialects import DuckDB
from tidemark.figures.query import AGGREGATES, Expression, Query
from tidemark.figures.reader import Contract, Version
from tidemark.figures.render import clauses
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

Figure = Callable[[Rows, Selection], Any]


def sql(figure: Figure, selection: Selection, root: str) -> str:
    """The statements of a figure as DuckDB's delta extension runs them, counted from silver; `root` is the directory or
    URL of the tables. Latencies are to be given as counts per bucket."""
    nothing = _Nothing()
    # Without a range it is not known how the zone's clocks were set.
    zone = "UTC" if selection.start is None else selection.zone
    figure(Rows(nothing), replace(selection, recount=True, zone=zone))
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
