"""Reads batches of a table's rows with Arrow: Spark lists the files of a batch, but does not read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.store import Files
from tidemark.contract.table import Table
from tidemark.engine.executors import Spread
from tidemark.store.parquet import PARQUET

_ROW_BY_ROW = ("SQLExecutionRDD", "MapPartitionsRDD")
# Files are usually a fraction of this, but repeated values are compressed.
MOST_BYTES = 256 << 20
_ROWS_AT_ONCE = 8_192
# A file's path and the number of a row group.
_Group = tuple[str, int]


@dataclass(frozen=True)
class TableFiles:
    """Batches of whole files of `table`, one of those in `files`, which are read here or in executors: these `columns`
    of all their rows.

    In an older file without a column, its values are NULL. Spark reads everything that cannot be read this way, and its
    errors are explained.
    """

    table: Table
    columns: tuple[str, ...]
    files: Files

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([self.table.arrow_schema.field(name) for name in self.columns])

    def fetch(self, batch: DataFrame) -> pa.Table | None:
        """The rows of a batch; None if they need more than MOST_BYTES."""
        paths = self._paths(batch)
        if not paths:
            return batch.toArrow()
        try:
            return _read(ds.dataset(paths, self.schema, PARQUET, self.files.system))
        except (OSError, pa.ArrowException):
            return batch.toArrow()

    def spread(self, batch: DataFrame, *, sparing: bool = False) -> Spread:
        """The rows of the batch for executors."""
        slices = [(self._paths(batch), None)]
        try:
            result = spread(batch.sparkSession, self.files.system, self.schema, slices, sparing=sparing)
        except (OSError, pa.ArrowException):
            result = None
        return result or Spread(batch)

    def _paths(self, batch: DataFrame) -> list[str]:
        return [self.files.located(path) for path in scanned(batch)]


def spread(
    spark: SparkSession,
    system: fs.FileSystem,
    schema: pa.Schema,
    slices: Sequence[tuple[Sequence[str], pc.Expression | None]],
    columns: Sequence[str] | None = None,
    *,
    sparing: bool = False,
) -> Spread | None:
    """Rows for executors: of the files of each slice those that fulfil its condition. `schema` is that of the files,
    `columns` (None: all) are those to read. A slice has up to one task for each core, with `sparing` for each second
    one. None without rows in the files; raises OSError or ArrowException.
    """
    cores = spark.sparkContext.defaultParallelism
    shares = []
    for number, (paths, _) in enumerate(slices):
        sizes = {
            (path, group): metadata.row_group(group).num_rows
            for path in paths
            for metadata in [pq.read_metadata(path, filesystem=system)]
            for group in range(metadata.num_row_groups)
        }
        tasks = min(len(sizes), max(1, cores // 2) if sparing else cores)
        for share in _shared(sizes, tasks):
            files, groups = zip(*sorted(share), strict=True)
            shares.append(pa.table({"paths": [files], "groups": [groups], "slice": [number]}))
    if not shares:
        return None
    # Spark makes one task of each batch of Arrow rows.
    locations = spark.createDataFrame(pa.concat_tables(shares))
    names = list(columns or schema.names)
    read = partial(_rows_of, schema, names, [where for _, where in slices], system)
    return Spread(locations, read, pa.schema([schema.field(name) for name in names]))


def _shared(sizes: Mapping[_Group, int], shares: int) -> list[list[_Group]]:
    """The row groups in shares of about as many rows: the largest first, each to the share that has the fewest."""
    shared: list[list[_Group]] = [[] for _ in range(shares)]
    rows = [0] * shares
    for group in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = rows.index(min(rows))
        shared[least].append(group)
        rows[least] += sizes[group]
    return shared


def _rows_of(
    schema: pa.Schema,
    columns: list[str],
    conditions: Sequence[pc.Expression | None],
    system: fs.FileSystem,
    shares: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The rows of row groups of files that fulfil the condition of their slice."""
    for share in shares:
        paths, groups = (pc.list_flatten(share.column(name)).to_pylist() for name in ("paths", "groups"))
        batches = [
            PARQUET.make_fragment(path, system, row_groups=[group])
            for path, group in zip(paths, groups, strict=True)
        ]
        rows = ds.FileSystemDataset(batches, schema, PARQUET, system)
        yield from rows.to_batches(
            columns=columns,
            filter=conditions[share.column("slice")[0].as_py()],
            batch_size=_ROWS_AT_ONCE,
            batch_readahead=2,
            fragment_readahead=1,
        )


def _read(files: ds.Dataset) -> pa.Table | None:
    batches, size = [], 0
    for batch in files.to_batches(batch_size=_ROWS_AT_ONCE, batch_readahead=2, fragment_readahead=1):
        batches.append(batch)
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
    return pa.Table.from_batches(batches, files.schema)


def scanned(batch: DataFrame) -> list[str]:
    """Paths of the files of a streaming query's batch; empty if the batch is not exactly all rows of some files,
    for example with a deletion vector.

    The batch is passed as an RDD (`DataFrame.inputFiles` is empty). The scan ends the RDD's lineage if every step after
    it is narrow.
    """
    try:
        rdd = batch._jdf.queryExecution().analyzed().rdd()
        while (name := rdd.getClass().getSimpleName()) != "FileScanRDD":
            before = rdd.dependencies()
            if name not in _ROW_BY_ROW or before.size() != 1:
                return []
            rdd = before.head().rdd()
        files = [file for split in _each(rdd.filePartitions()) for file in split.files()]
        whole = all(file.otherConstantMetadataColumnValues().isEmpty() for file in files)
        return sorted({_path(file) for file in files}) if whole else []
    except (AttributeError, Py4JError):  # another kind of session, or another version of Spark
        return []


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _path(file: Any) -> str:
    return str(file.filePath().toPath().toUri().getPath())
