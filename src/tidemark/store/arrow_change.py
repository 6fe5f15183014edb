"""Changes as Arrow tables, and conditions for delta-rs and pyarrow."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.contract.aggregation import time_ranges
from tidemark.contract.store import Where
from tidemark.contract.table import Change, Table

DELETE = "_delete"


def source_of(table: Table, change: Change) -> pa.Table:
    """Rows to write and keys to delete as one frame with a flag column."""
    rows = change.rows.select(table.column_names).cast(table.arrow_schema)
    rows = rows.append_column(DELETE, pa.array([False] * rows.num_rows, pa.bool_()))
    if change.deleted is None or change.deleted.num_rows == 0:
        return rows
    gone = change.deleted.select([*dict.fromkeys([*table.key, *([table.time] if table.time else [])])])
    gone = gone.append_column(DELETE, pa.array([True] * gone.num_rows, pa.bool_()))
    return pa.concat_tables([rows, gone], promote_options="default")


def bounds(table: Table, source: pa.Table) -> str:
    """The time ranges of a merge as literals, by which whole files are skipped without reading them."""
    if not table.time:
        return ""
    name = f"t.{table.time}"
    ranges = time_ranges(source[table.time])
    parts = [f"({name} >= {_literal(first)} AND {name} <= {_literal(last)})" for first, last in ranges]
    return f" AND ({' OR '.join(parts)})"


def text_columns(table: Table) -> frozenset[str]:
    """Columns on which conditions are applied after reading: pyarrow cannot evaluate them on files of delta-rs, which
    declare text as string_view. Nothing is lost: the statistics that prune files are of times and numbers."""
    return frozenset(field.name for field in table.arrow_schema if pa.types.is_string(field.type))


def expression(where: Where) -> pc.Expression | None:
    """The conditions as a pyarrow expression; None if a group has no condition."""
    if not where or not all(where):
        return None
    return pq.filters_to_expression([list(group) for group in where])


def _literal(value: datetime) -> str:
    return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}Z'"
