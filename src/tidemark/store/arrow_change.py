"""Changes as Arrow tables, and conditions as delta-rs' SQL."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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
    """The time range of a merge as literals, by which whole files are skipped without reading them."""
    if not table.time:
        return ""
    low, high = pc.min_max(source[table.time]).values()
    return f" AND t.{table.time} >= {_literal(low)} AND t.{table.time} <= {_literal(high)}"


def _literal(value: pa.Scalar) -> str:
    return f"TIMESTAMP '{value.as_py():%Y-%m-%d %H:%M:%S.%f}Z'"
