"""Batches of a table's rows, read here: which files a batch is, Spark says; their rows need not pass through it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.sql import DataFrame

from tidemark.contract.table import Table
from tidemark.engine.executors import Read

# Spark writes timestamps in a form that has no unit.
_PARQUET = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
_ROW_BY_ROW = ("SQLExecutionRDD", "MapPartitionsRDD")
# Files are a fraction of that, but rows that are alike take no place in them.
MOST_BYTES = 256 << 20
_ROWS_AT_ONCE = 8_192


@dataclass(frozen=True)
class TableFiles:
    """Batches of whole files of `table`, which are read here or in executors: these `columns` of all their rows.

    A file that lacks a column, because it is older, has NULL there. What cannot be read so is left to Spark, whose
    errors are explained.
    """

    table: Table
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([self.table.arrow_schema.field(name) for name in self.columns])

    def fetch(self, batch: DataFrame) -> pa.Table | None:
        """The rows of a batch; None if they take more than MOST_BYTES."""
        paths = scanned(batch)
        if not paths:
            return batch.toArrow()
        try:
            return _read(ds.dataset(paths, schema=self.schema, format=_PARQUET))
        except (OSError, pa.ArrowException):
            return batch.toArrow()

    def spread(self, batch: DataFrame) -> tuple[DataFrame, Read]:
        """A frame of the batch for executors, and how they get its rows from there."""
        paths = scanned(batch)
        if not paths or not all(Path(path).exists() for path in paths):
            return batch, iter
        spark = batch.sparkSession
        parts = [(path, group) for path in paths for group in range(pq.read_metadata(path).num_row_groups)]
        rows = pa.table({"path": [path for path, _ in parts], "group": [group for _, group in parts]})
        tasks = max(1, min(len(parts), spark.sparkContext.defaultParallelism))
        return spark.createDataFrame(rows).repartition(tasks), partial(_rows_of, self.schema)


def _rows_of(schema: pa.Schema, parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of row groups of files."""
    local = fs.LocalFileSystem()
    for batch in parts:
        pairs = zip(batch.column("path").to_pylist(), batch.column("group").to_pylist(), strict=True)
        found = [_PARQUET.make_fragment(path, local, row_groups=[group]) for path, group in pairs]
        rows = ds.FileSystemDataset(found, schema, _PARQUET, local)
        yield from rows.to_batches(batch_size=_ROWS_AT_ONCE, batch_readahead=2, fragment_readahead=1)


def _read(files: ds.Dataset) -> pa.Table | None:
    pieces, size = [], 0
    for piece in files.to_batches(batch_size=_ROWS_AT_ONCE, batch_readahead=2, fragment_readahead=1):
        pieces.append(piece)
        size += piece.nbytes
        if size > MOST_BYTES:
            return None
    return pa.Table.from_batches(pieces, files.schema)


def scanned(batch: DataFrame) -> list[str]:
    """Paths of the files that are a streaming query's batch; none where it is not simply all rows of some files,
    as with a deletion vector.

    The batch is an RDD to whoever is given it (`DataFrame.inputFiles` knows of no file). At the end of its line
    stands the scan, where one has nothing but narrow steps behind it.
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
