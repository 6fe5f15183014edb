"""The interface through which every table is read and committed, and the capabilities of stores.

All implementations pass the same tests (tests/store): `DeltaRsStore` for tables in directories and on object storage,
where a small commit takes tens to hundreds of milliseconds, and `SparkStore` for Unity Catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidemark.contract.measure import Scan
from tidemark.contract.table import Change, Table
from tidemark.figures.reader import Reader

if TYPE_CHECKING:  # stores of files need no Spark
    from pyspark.sql import DataFrame

Operator = Literal["=", "<", "<=", ">", ">=", "in"]
Condition = tuple[str, Operator, Any]
# Groups of conditions: all conditions of at least one group must hold (disjunctive normal form, as in pyarrow).
Where = Sequence[Sequence[Condition]]


@dataclass(frozen=True)
class Commit:
    """The identity of a commit, which makes it idempotent: a writer's id and its increasing number.

    Stored in the Delta log as an application transaction. `writer` names the flow and its checkpoint,
    because a new checkpoint starts at 0 again. `also` has numbers of further names, which the same commit sets.
    """

    writer: str
    number: int
    also: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class DataFile:
    """A Parquet file in a table's directory that is not committed yet: its relative path, size in bytes,
    number of rows, and statistics as in the Delta protocol."""

    path: str
    bytes: int
    rows: int
    stats: str


@dataclass(frozen=True)
class Directory:
    """A table's directory, for writers of its files, including executors."""

    system: fs.FileSystem
    path: str

    def writer(self, name: str, schema: pa.Schema) -> pq.ParquetWriter:
        """A writer of a new file in the directory. The file does not tell which text was dictionary-encoded before. It
        has no statistics of text: they tell little of rows in the order of arrival, and take a fifth of the time."""
        bounded = [field.name for field in schema if not _is_text(field.type)]
        return pq.ParquetWriter(
            f"{self.path}/{name}",
            schema,
            filesystem=self.system,
            compression="zstd",
            compression_level=1,
            write_statistics=bounded,
            store_schema=False,
        )

    def size(self, name: str) -> int:
        """Size of a written file in bytes."""
        return int(self.system.get_file_info(f"{self.path}/{name}").size)


def _is_text(type: pa.DataType) -> bool:
    return any(is_so(type) for is_so in (pa.types.is_dictionary, pa.types.is_string, pa.types.is_binary))


class Files(Protocol):
    """The files of tables, for a process that reads, copies and deletes them. Paths are those of `system`."""

    @property
    def system(self) -> fs.FileSystem:
        """The file system, for readers and writers of Parquet files. It can be pickled."""

    @property
    def base(self) -> str:
        """The directory of the layers' directories."""

    @property
    def options(self) -> dict[str, str] | None:
        """Storage options with which delta-rs reaches the tables."""

    def located(self, uri: str) -> str:
        """The path of a file in Spark's notation."""

    def read(self, path: str) -> bytes:
        """A file's content. Raises FileNotFoundError."""

    def create(self, path: str, content: bytes) -> bool:
        """Creates a file with all of its content at once. Returns false where the storage cannot; raises
        FileExistsError if the file exists, OSError."""

    def list(self, directory: str) -> Sequence[fs.FileInfo]:
        """The files of a directory, by name; empty if there is no such directory."""

    def sizes(self, directory: str) -> Mapping[str, int]:
        """Bytes of all files below a directory, by their paths relative to it."""

    def size(self, path: str) -> int | None:
        """Bytes of a file, None if there is none."""

    def delete(self, path: str) -> None:
        """Deletes a file, if there is one."""

    def clear(self, directory: str) -> None:
        """Deletes a directory with its content, if it exists."""

    def take(self, source: Files, origin: str, path: str, *, renew: bool = False) -> None:
        """Links or copies `origin` in `source` to `path`, as cheaply as the storage allows; an existing file
        stays. With `renew` the file's age starts now."""


class Register(Protocol):
    """The writer's note, which every process with access to the tables sees."""

    def read(self) -> Mapping[str, str] | None:
        """The current note, None if there is none. Two notes of the same holder differ, too."""

    def write(self, note: Mapping[str, str]) -> bool:
        """Writes a note. Returns false without writing if another process wrote since the last `read` or `write`
        and the storage detects it. Raises PlatformError if it cannot be written."""

    def clear(self) -> None:
        """Deletes the note."""


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of the tables' storage.

    `files`: the tables' files; None if this process cannot reach them, so that rebuilds beside the stream,
    savepoints, deletion of a visitor and upkeep within the pipeline are not available. `durable`: a commit survives a
    power cut, so no check and no repair is necessary. `keeps_home`: the home is permanent, with the
    visitor key created in it. `replaces`: Spark can replace a whole table by its name, which is how it is
    rebuilt without `files`. `register`: the note by which writers in other homes are detected; None if the home's
    lock suffices.
    """

    files: Files | None
    durable: bool
    keeps_home: bool
    replaces: bool = False
    register: Register | None = field(default=None, compare=False)


class Store(Protocol):
    """Reads and commits tables. A commit that the table already has is skipped."""

    @property
    def can(self) -> Capabilities:
        """The capabilities of the tables' storage."""

    @property
    def reader(self) -> Reader:
        """Answers the queries of `tidemark.figures` from the same tables."""

    def ensure(self, table: Table, properties: Mapping[str, str] | None = None) -> None:
        """Creates a missing table, adds missing columns, and sets the `properties` that differ.

        Raises TableError if the existing table is incompatible.
        """

    def version(self, table: Table) -> int:
        """Version of the table's newest commit. Raises TableError if it cannot be read."""

    def id(self, table: Table) -> str:
        """The id that Delta gave the table when it was created. Raises as `version`."""

    def exists(self, table: Table) -> bool:
        """Whether there is a Delta table with any columns."""

    def committed(self, table: Table, writer: str) -> int:
        """Number of the last commit of `writer` in the table, -1 if none."""

    def has_batches_of(self, table: Table, flow: str) -> bool:
        """Whether the flow has committed to the table, with any checkpoint, as far as the store knows."""

    def rows_since(self, table: Table, version: int) -> int | None:
        """Rows added by commits from `version` on; None if unknown. May be some seconds old."""

    def read(self, table: Table, where: Where = (), columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that fulfil `where`; callers bound the result. Columns that a table of an earlier version lacks are
        NULL."""

    def measure(self, scans: Sequence[Scan]) -> list[list[int | None]]:
        """The measures of each scan, in bounded memory. Raises TableError if a table cannot be read."""

    def append(self, table: Table, rows: DataFrame, commit: Commit) -> None:
        """Adds rows of the table's columns; for a store without `directory`."""

    def directory(self, table: Table) -> Directory | None:
        """The directory in which executors write files for `append_files`; None if the store cannot take them."""

    def append_files(self, table: Table, files: Sequence[DataFile], commit: Commit) -> None:
        """Adds files of the table's directory."""

    def append_arrow(self, table: Table, rows: pa.Table, commit: Commit | None = None) -> None:
        """Adds rows from the driver; not idempotent without `commit`."""

    def upsert(self, table: Table, change: Change, commit: Commit) -> None:
        """Writes rows by key and deletes keys, in one commit."""

    def replace(self, table: Table, rows: Callable[[], Iterator[pa.Table]], commit: Commit) -> None:
        """Replaces all rows, in one commit, whatever number the writer had. `rows` returns the new ones in parts; it is
        called again when a commit is repeated."""
