"""Measures over tables that delta-rs reads: batch by batch, only the columns needed, and only files whose statistics
do not exclude all their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tidemark.contract.expression import evaluated
from tidemark.contract.measure import Measure, Scan

if TYPE_CHECKING:  # it imports pandas
    import pyarrow.dataset as ds

# With more keys than this, several passes over the key's columns each compare a part of the keys.
MOST_KEYS = 2_000_000
_BATCH_ROWS = 1 << 16

Batches = Callable[[Iterable[str]], Iterator[pa.Table]]


def measured(
    target: DeltaTable, rows: ds.Dataset, scan: Scan, most_keys: int = MOST_KEYS
) -> list[int | None]:
    """The measures of a scan over `rows`, those of `target`, which is the table at the scan's version.

    Raises DeltaError, OSError or ArrowException if it cannot be read.
    """
    if scan.where is None and not any(each.columns for each in scan.measures):
        number, _ = size_in_log(target)
        if number is not None:
            return [number for _ in scan.measures]
    where = None if scan.where is None else scan.where.arrow

    def batches(names: Iterable[str]) -> Iterator[pa.Table]:
        schema = pa.schema([scan.table.arrow_schema.field(name) for name in names])
        scanner = rows.scanner(
            columns=schema.names,
            filter=where,
            batch_size=_BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        return (pa.Table.from_batches([batch]).cast(schema) for batch in scanner.to_batches())

    summed = [each for each in scan.measures if each.value is not None]
    values = iter(_values(summed, batches, scan.table.key[0]))
    return [
        next(values)
        if each.value is not None
        else _repeated(sorted(each.columns), batches, rows.count_rows(filter=where), most_keys)
        for each in scan.measures
    ]


def size_in_log(target: DeltaTable) -> tuple[int | None, int]:
    """Rows (None if a file has no statistics) and bytes of the table's files."""
    files = pa.table(target.get_add_actions(flatten=True))
    known = "num_records" in files.column_names
    rows = files["num_records"].to_pylist() if known else [None] * files.num_rows
    return None if None in rows else sum(rows), sum(files["size_bytes"].to_pylist())


def _values(measures: Sequence[Measure], batches: Batches, any_column: str) -> list[int | None]:
    """Sums and maxima, in one pass over the rows."""
    if not measures:
        return []
    names = frozenset[str]().union(*(each.columns for each in measures))
    wanted = {str(number): each.value for number, each in enumerate(measures)}
    parts: list[list[int]] = [[] for _ in measures]
    # Without a column, a table has no rows.
    for rows in batches(sorted(names or {any_column})):
        for each, part, column in zip(measures, parts, evaluated(wanted, rows).columns, strict=True):
            value = pc.max(column) if each.highest else pc.sum(column, min_count=0)
            if value.is_valid:
                part.append(value.as_py())
    return [
        max(part, default=None) if each.highest else sum(part)
        for each, part in zip(measures, parts, strict=True)
    ]


def _repeated(key: Sequence[str], batches: Batches, rows: int, most_keys: int) -> int:
    """Rows beyond the first of their key, and rows with a NULL in it. Memory does not grow with the table."""
    passes = max(1, -(-rows // most_keys))
    different = 0
    for number in range(passes):
        parts = [_part(keys.drop_null(), number, passes) for keys in batches(key)]
        if parts:
            keys = pa.concat_tables(parts).group_by(list(key), use_threads=False).aggregate([])
            different += keys.num_rows
    return rows - different


def _part(keys: pa.Table, number: int, passes: int) -> pa.Table:
    """The keys of one pass; equal keys are in the same one."""
    if passes == 1:
        return keys
    from pandas.util import hash_pandas_object  # pandas takes half a second to import

    hashes = hash_pandas_object(keys.to_pandas(), index=False).to_numpy()
    return keys.filter(pa.array(hashes % passes == number))
