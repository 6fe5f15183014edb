"""Rows straight from the files of a Delta table, whose text stays what Parquet keeps it as: numbers of its distinct
values. For lists of paths this takes a fraction of the time of an engine's rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from tidemark.figures.query import Expression, Operator, Query, Where

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow import fs

_COMPARED: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def suits(q: Query) -> bool:
    """Whether a query only chooses columns, and rows by comparisons with values."""
    named = not any(isinstance(column, Expression) for _, column in q.columns)
    return named and not (q.group_by or q.order_by or q.limit) and len(_comparisons(q)) == len(q.where)


def scan(table: DeltaTable, q: Query, coded: Sequence[str]) -> pa.RecordBatchReader:
    """The rows of a query that suits, some at a time. Text of the columns `coded` comes as dictionaries, also within a
    list of structs, as in steps.path."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = pa.schema([_within_list(each, coded) for each in pa.schema(table.schema().to_arrow())])
    # As Parquet names them.
    names = {name.replace(".", ".list.element.") for name in coded}
    dataset = table.to_pyarrow_dataset(
        filesystem=files_of(table),
        schema=schema,
        parquet_read_options=ds.ParquetReadOptions(dictionary_columns=names),
    )
    compared = [_COMPARED[each.operator](ds.field(each.column), each.value) for each in _comparisons(q)]
    kept = reduce(operator.and_, compared) if compared else None
    columns = {name: ds.field(str(column)) for name, column in q.columns}
    return dataset.scanner(columns=columns, filter=kept).to_reader()


def files_of(table: DeltaTable) -> fs.FileSystem | None:
    """The file system for scans of a table: that of a local table's directory, because delta-rs' own calls Python from
    Arrow's threads, and a process that ends while they free what they have read is aborted. None, for that of delta-rs,
    where the table is elsewhere: it knows the sizes of the files from the log, which saves a request per file."""
    from pyarrow import fs

    if not table.table_uri.startswith("file:"):
        return None
    system, path = fs.FileSystem.from_uri(table.table_uri)
    return fs.SubTreeFileSystem(path, system)


def _comparisons(q: Query) -> list[Where]:
    """The conditions that compare a column with a value."""
    return [
        each
        for each in q.where
        if isinstance(each, Where)
        and isinstance(each.column, str)
        and each.operator in _COMPARED
        and each.value is not None
    ]


def _within_list(column: pa.Field, coded: Sequence[str]) -> pa.Field:
    """The column with dictionaries within its list; the library knows of columns only."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return column
    fields = [
        each.with_type(pa.dictionary(pa.int32(), each.type))
        if f"{column.name}.{each.name}" in coded
        else each
        for each in kind.value_type
    ]
    return column.with_type(pa.list_(kind.value_field.with_type(pa.struct(fields))))
