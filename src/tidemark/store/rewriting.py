"""Changes of few rows of an upsert table: their files are written again, without a plan of delta-rs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, transaction

from tidemark.contract.aggregation import in_range
from tidemark.contract.files import TableFile
from tidemark.contract.store import DataFile, Directory
from tidemark.contract.table import Table
from tidemark.store.arrow_change import DELETE, expression

if TYPE_CHECKING:  # it imports pandas, which takes as long as the rest of a small command
    import pyarrow.dataset as ds

# An upsert rewrites the files of revised rows. With small files it takes tens of milliseconds.
UPSERT_FILE_BYTES = 1 << 20
# delta-rs merges more rows with all cores, and in bounded memory.
MOST_ROWS = 1_000
# Since version 1.6.6 of delta-rs a commit can replace files.
_REPLACES = hasattr(transaction, "RemoveAction")
# Later versions of the protocol have features that a commit of files would have to respect.
WRITER_VERSION = 2
_ROW = "_row"


@dataclass(frozen=True)
class Rewritten:
    """Files that replace others: `removed` has the path and the size in bytes of each of these."""

    removed: tuple[tuple[str, int], ...]
    added: tuple[DataFile, ...]


def can_rewrite(table: Table, target: DeltaTable, source: pa.Table) -> bool:
    """Whether `source` has few rows, and files with exactly the table's columns can be committed to `target`."""
    return (
        _REPLACES
        and source.num_rows <= MOST_ROWS
        and target.protocol().min_writer_version <= WRITER_VERSION
        and {field.name for field in target.schema().fields} == set(table.column_names)
    )


def rewrite(table: Table, source: pa.Table, dataset: ds.Dataset, directory: Directory) -> Rewritten:
    """Writes the files of a change: `source` as of `source_of`, each key once, and `dataset` the rows of the table.

    Small files with rows of the change become one, which takes the new rows, too. A large one is replaced by one, or by
    several if it has grown. So the windows of a large table are in files of their own, and a batch writes only its own
    window. Raises OSError and pyarrow.ArrowException.
    """
    new = source.filter(pc.invert(source[DELETE])).select(table.column_names)
    removed: list[tuple[str, int]] = []
    contents: list[tuple[int, pa.Table]] = []
    near = expression(in_range(table.time, source)) if table.time else None
    for fragment in dataset.get_fragments(filter=near):
        rows = fragment.to_table(schema=dataset.schema, columns=table.column_names).cast(table.arrow_schema)
        changed = _has_key_of(table, rows, source)
        if changed.any():
            updated = _has_key_of(table, new, rows)
            size = directory.size(fragment.path)
            removed.append((fragment.path, size))
            contents.append((size, pa.concat_tables([_only(rows, ~changed), _only(new, updated)])))
            new = _only(new, ~updated)
    small = [content for content in contents if content[0] < UPSERT_FILE_BYTES // 2]
    large = [content for content in contents if content[0] >= UPSERT_FILE_BYTES // 2]
    one = sum(size for size, _ in small), pa.concat_tables([*(rows for _, rows in small), new])
    parts = (part for size, rows in (*large, one) for part in _parts(table, rows, size))
    return Rewritten(
        tuple(removed), tuple(file for part in parts for file in _written(table, part, directory))
    )


def _has_key_of(table: Table, rows: pa.Table, others: pa.Table) -> np.ndarray:
    """For each row, whether its key is among those of the others."""
    key = list(table.key)
    numbered = rows.select(key).append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    joined = numbered.join(others.select(key), key, join_type="left semi", use_threads=False)
    has_key = np.zeros(rows.num_rows, bool)
    has_key[joined[_ROW].to_numpy()] = True
    return has_key


def _only(rows: pa.Table, flags: np.ndarray) -> pa.Table:
    return rows.filter(pa.array(flags))


def _parts(table: Table, rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """The rows of a file of `size` bytes, for files of about UPSERT_FILE_BYTES, by time."""
    number = max(1, round(size / UPSERT_FILE_BYTES))
    if number > 1 and table.time:
        rows = rows.sort_by(table.time)
    length = max(1, -(-rows.num_rows // number))
    return (rows.slice(first, length) for first in range(0, rows.num_rows, length))


def _written(table: Table, rows: pa.Table, directory: Directory) -> Iterator[DataFile]:
    file = TableFile(table, directory, "driver")
    file.write(rows)
    return file.close()
