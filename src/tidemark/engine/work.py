"""The work on the rows of a batch: rows to append to tables, and partial rows to merge into others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Encoding, Mergeable
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.groups import anti_join, decoded, encoded


@dataclass(frozen=True)
class Part:
    """Rows of a batch: all, or those whose flag equals `wanted`."""

    flag: str = ""
    wanted: bool = True

    def of(self, rows: pa.Table) -> pa.Table:
        if not self.flag:
            return rows
        wanted = pc.equal(rows[self.flag], self.wanted)
        return rows if pc.all(wanted, skip_nulls=False).as_py() else rows.filter(wanted)

    def columns(self, names: Sequence[str]) -> list[str]:
        """These columns once each, and that of the flag, which `of` needs."""
        return list(dict.fromkeys([*names, *([self.flag] if self.flag else [])]))


ALL = Part()
# The parts of validated lines, by what a table has rows of (`Table.lines`).
PARTS_OF_LINES = {"all": ALL, "accepted": Part("accepted"), "rejected": Part("accepted", wanted=False)}


@dataclass(frozen=True)
class Work:
    """The work on the rows of a batch, in the driver or in executors.

    `validation` adds the columns from which everything else is made. Rows with keys in `left_out` are then removed.
    `appends` are the append tables, each with its part of the rows; `aggregations` has, by table, an aggregation and
    its part of the rows.
    """

    validation: Vectorized | None = None
    appends: Sequence[tuple[Table, Part]] = ()
    aggregations: Mapping[str, tuple[Mergeable, Part]] = field(default_factory=dict)
    left_out: pa.Table | None = None

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Prepares rows for appends and aggregations. The result does not depend on the split of the rows."""
        validated = self.validation.add(rows) if self.validation else rows
        return (
            validated
            if self.left_out is None
            else anti_join(validated, self.left_out, self.left_out.column_names)
        )

    def rows(self, table: Table, part: Part, prepared: pa.Table) -> pa.Table:
        """The new rows of an append table. Text that is dictionary-encoded stays so."""
        names = [column.of or column.name for column in table.columns]
        kept = part.of(prepared.select(part.columns(names))).select(names).rename_columns(table.column_names)
        fields = [
            own.with_type(given.type) if pa.types.is_dictionary(given.type) else own
            for own, given in zip(table.arrow_schema, kept.schema, strict=True)
        ]
        return kept.cast(pa.schema(fields))

    def encoded(self, prepared: pa.Table) -> pa.Table:
        """The prepared rows, with text dictionary-encoded once for all aggregations that take it so."""
        wanted = (each.encodes for each, _ in self.aggregations.values() if isinstance(each, Encoding))
        for name in sorted(frozenset[str]().union(*wanted)):
            kind = prepared.schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
                place = prepared.column_names.index(name)
                prepared = prepared.set_column(place, name, encoded(prepared[name]))
        return prepared

    def partial(self, name: str, rows: pa.Table) -> pa.Table:
        """The partial rows of an aggregation, of prepared rows or those of `encoded`."""
        aggregation, part = self.aggregations[name]
        rows_of_part = part.of(rows.select(part.columns(aggregation.needs)))
        return aggregation.partial(
            rows_of_part if isinstance(aggregation, Encoding) else decoded(rows_of_part)
        )

    def merged(self, name: str, partials: Sequence[pa.Table]) -> pa.Table:
        """Merges the partial rows of several parts to those of the whole."""
        if len(partials) == 1:
            return partials[0]
        return self.aggregations[name][0].merge(pa.concat_tables(partials))
