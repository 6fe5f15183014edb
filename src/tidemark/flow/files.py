"""Batches of a table's rows, read here: which files a batch is, Spark says; their rows need not pass through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from tidemark.table import Table

# Spark writes timestamps in a form that has no unit.
_PARQUET = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
_ROW_BY_ROW = ("SQLExecutionRDD", "MapPartitionsRDD")
# Files are a fraction of that, but rows that are alike take no place in them.
MOST_BYTES = 256 << 20
_ROWS_AT_ONCE = 8_192


def from_files(table: Table, columns: Sequence[str]) -> Callable[[DataFrame], pa.Table | None]:
    """A function that gives these columns of a batch of whole files of `table`, which are on this machine; None
    if they take more than MOST_BYTES. For a flow that prepares nothing but the columns: all rows are read.

    A file that lacks a column, because it is older, has NULL there. What cannot be read here is left to Spark,
    whose errors are explained.
    """
    schema = pa.schema([table.arrow_schema.field(name) for name in columns])

    def fetch(batch: DataFrame) -> pa.Table | None:
        paths = scanned(batch)
        if not paths:
            return batch.toArrow()
        try:
            return _read(ds.dataset(paths, schema=schema, format=_PARQUET))
        except (OSError, pa.ArrowException):
            return batch.toArrow()

    return fetch


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
