"""The small interface through which every table is read and committed.

Both implementations pass the same tests (tests/store): `DeltaRsStore` for path tables on one machine,
where a small commit takes tens of milliseconds, and `SparkStore` for clusters and Unity Catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidemark.contract.table import Change, Table

Operator = Literal["=", "<", "<=", ">", ">=", "in"]
Condition = tuple[str, Operator, Any]
# Any of several groups of conditions, all of which hold: the disjunctive form that pyarrow uses too.
Where = Sequence[Sequence[Condition]]


@dataclass(frozen=True)
class Commit:
    """What makes a table commit idempotent: a writer's id and its own growing number.

    Stored in the Delta log as an application transaction. `writer` names the flow and its checkpoint,
    because a new checkpoint counts from 0 again.
    """

    writer: str
    number: int


@dataclass(frozen=True)
class DataFile:
    """A Parquet file that is in a table's directory and not in the table yet: its name there, its size in bytes, its
    number of rows, and its statistics as in the Delta protocol."""

    path: str
    bytes: int
    rows: int
    stats: str


@dataclass(frozen=True)
class Directory:
    """A table's directory, for whoever writes files for the table: executors, too."""

    uri: str

    def writer(self, path: str, schema: pa.Schema) -> pq.ParquetWriter:
        """Writes a new file of the directory."""
        return pq.ParquetWriter(f"{self.uri}/{path}", schema, compression="zstd", compression_level=1)

    def size(self, path: str) -> int:
        """Bytes of a file that has been written."""
        return Path(f"{self.uri}/{path}").stat().st_size


class Store(Protocol):
    """Reads and commits tables. A commit that the table already has does nothing."""

    def ensure(self, table: Table) -> None:
        """Creates the table if it is missing and adds columns that it lacks.

        Raises TableError where the table that is there does not fit.
        """

    def version(self, table: Table) -> int:
        """Version of the table's newest commit. Raises TableError if it cannot be read."""

    def committed(self, table: Table, writer: str) -> int:
        """Number of the last commit of `writer` in the table, -1 if none."""

    def read(self, table: Table, where: Where = (), columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that fulfil `where`; callers keep it bounded."""

    def append(self, table: Table, rows: DataFrame, commit: Commit) -> None:
        """Adds rows of the table's columns."""

    def directory(self, table: Table) -> Directory | None:
        """Where executors may write files for `append_files`; None if the store cannot take those."""

    def append_files(self, table: Table, files: Sequence[DataFile], commit: Commit) -> None:
        """Adds files that are in the table's directory."""

    def append_arrow(self, table: Table, rows: pa.Table, commit: Commit | None = None) -> None:
        """Adds a few rows that are already here; without `commit` not idempotent."""

    def upsert(self, table: Table, change: Change, commit: Commit) -> None:
        """Writes rows by key and deletes keys, in one commit."""
