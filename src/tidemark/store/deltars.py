"""Tables in directories and on object storage, through delta-rs: a commit of a few rows takes tens of milliseconds, or
some requests to the storage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from tidemark.contract.files import STATISTICS_BYTES, TableFile
from tidemark.contract.measure import Scan
from tidemark.contract.store import Capabilities, Commit, DataFile, Directory, Where
from tidemark.contract.table import CHECKPOINTS, Change, Table
from tidemark.errors import TableError, conflict
from tidemark.figures.reader import Reader
from tidemark.figures.reader_delta import DeltaReader
from tidemark.store import deltalog
from tidemark.store.arrow_change import DELETE, bounds, expression, source_of, text_columns
from tidemark.store.commit_files import commit_files, properties_of
from tidemark.store.lakehouse import Lakehouse, is_conflict, require_files
from tidemark.store.measures import measured, size_in_log
from tidemark.store.rewriting import UPSERT_FILE_BYTES, Rewritten, can_rewrite, rewrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# By default old versions are deleted after half an hour. Only
# `tidemark.operate.upkeep` shortens logs, because it knows the positions of the streams.
UPKEEP_PROPERTIES = {
    "delta.deletedFileRetentionDuration": "interval 1800 seconds",
    "delta.enableExpiredLogCleanup": "false",
    **CHECKPOINTS,
}
_WRITER = WriterProperties(
    compression="ZSTD", compression_level=1, statistics_truncate_length=STATISTICS_BYTES
)
_ATTEMPTS = 5


@dataclass(frozen=True)
class _Head:
    """The newest version of a table and the number of a writer's last commit in it. `handle` is of this version or an
    earlier one."""

    handle: DeltaTable
    version: int
    number: int


class DeltaRsStore:
    """The tables of a home. Keeps one handle per table; use one store per process. Raises TableError for tables
    that delta-rs does not reach."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self._files = require_files(lakehouse, "delta-rs")
        self._lakehouse = lakehouse
        self._open: dict[str, DeltaTable] = {}
        self._rows: dict[str, dict[int, int]] = {}
        # By table and writer.
        self._heads: dict[tuple[str, str], _Head] = {}

    @cached_property
    def reader(self) -> Reader:
        root = self._lakehouse.root
        if "://" in root:
            return DeltaReader(Path(), root, self._files.options)
        return DeltaReader(Path(root).parent)

    @property
    def can(self) -> Capabilities:
        return self._lakehouse.can

    def ensure(self, table: Table, properties: Mapping[str, str] | None = None) -> None:
        path = self._lakehouse.path(table)
        try:
            if not DeltaTable.is_deltatable(path, self._files.options):
                self._files.system.create_dir(self._lakehouse.directory(table))
                self._open[path] = DeltaTable.create(
                    path,
                    table.documented_schema,
                    mode="ignore",
                    description=table.about,
                    configuration=_configuration(table, properties or {}),
                    raise_if_key_not_exists=False,
                    storage_options=self._files.options,
                )
            self._add_columns(table)
        except (DeltaError, OSError) as error:
            raise self._lakehouse.failure(table, "opened", error) from error
        if properties:
            self._retry(table, partial(_set_properties, properties))

    def version(self, table: Table) -> int:
        return int(self.newest(table).version())

    def id(self, table: Table) -> str:
        return str(self.newest(table).metadata().id)

    def exists(self, table: Table) -> bool:
        return self._lakehouse.exists(table)

    def committed(self, table: Table, writer: str) -> int:
        return self._head(table, writer).number

    def has_batches_of(self, table: Table, flow: str) -> bool:
        log = self._lakehouse.log(table)
        return any(
            action.get("txn", {}).get("appId", "").startswith(f"{flow}/")
            for version in reversed(deltalog.versions(log))
            for action in deltalog.actions(log, version)
        )

    def rows_since(self, table: Table, version: int) -> int | None:
        known = {n: rows for n, rows in self._rows.get(table.name, {}).items() if n >= version}
        newest = max(known, default=version - 1)
        for number, commit in deltalog.commits(self._lakehouse.log(table), newest + 1):
            known[number] = deltalog.rows_added(commit)
        self._rows[table.name] = known
        return sum(known.values())

    def read(self, table: Table, where: Where = (), columns: Sequence[str] | None = None) -> pa.Table:
        wanted = list(columns or table.column_names)
        # No value is in an empty list, which pyarrow cannot compare with.
        possible = [group for group in where if not any(op == "in" and not value for _, op, value in group)]
        if len(possible) < len(where) and not possible:
            return table.arrow_schema.empty_table().select(wanted)
        where = possible
        needed = dict.fromkeys([*wanted, *(name for group in where for name, _, _ in group)])
        text = text_columns(table)
        early = [[c for c in group if c[0] not in text] for group in where]
        rows = self.read_version(table, None, list(needed), expression(early))
        late = expression(where)
        return (rows if late is None else rows.filter(late)).select(wanted)

    def read_version(
        self, table: Table, version: int | None, columns: Sequence[str], where: pc.Expression | None
    ) -> pa.Table:
        """The rows of a version (None: the newest) that fulfil `where`, with these columns in the declared types."""
        try:
            dataset = self._lakehouse.dataset(table, self._at(table, version))
            there = dataset.schema.names
            known = {name: pc.field(name) if name in there else pc.scalar(None) for name in columns}
            rows = dataset.to_table(columns=known, filter=where)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._lakehouse.failure(table, "read", error) from error
        return rows.cast(pa.schema([table.arrow_schema.field(name) for name in columns]))

    def size(self, table: Table, version: int | None) -> tuple[float, float]:
        """Rows and bytes of a version (None: the newest); infinitely many rows if their number is not known."""
        try:
            rows, size = size_in_log(self._at(table, version))
        except (DeltaError, OSError) as error:
            raise self._lakehouse.failure(table, "read", error) from error
        return math.inf if rows is None else rows, size

    def _at(self, table: Table, version: int | None) -> DeltaTable:
        return self.newest(table) if version is None else self._lakehouse.delta(table, version)

    def measure(self, scans: Sequence[Scan]) -> list[list[int | None]]:
        results = []
        for scan in scans:
            try:
                target = self._at(scan.table, scan.version)
                results.append(measured(target, self._lakehouse.dataset(scan.table, target), scan))
            except (DeltaError, OSError, pa.ArrowException) as error:
                raise self._lakehouse.failure(scan.table, "read", error) from error
        return results

    def append(self, table: Table, rows: DataFrame, commit: Commit) -> None:
        raise TableError(f"rows of a frame come to {table.name} as files of its directory", "Report it.")

    def directory(self, table: Table) -> Directory:
        return Directory(self._files.system, self._lakehouse.directory(table))

    def append_files(self, table: Table, files: Sequence[DataFile], commit: Commit) -> None:
        def add() -> None:
            head = self._head(table, commit.writer)
            if head.number < commit.number:
                self._commit_files(table, head.handle, head.version, Rewritten((), tuple(files)), commit)

        self._attempt(table, add)

    def append_arrow(self, table: Table, rows: pa.Table, commit: Commit | None = None) -> None:
        if commit and table.kind == "append" and rows.num_rows:
            self._append_file(table, rows, commit)
            return

        def write(target: DeltaTable) -> None:
            if commit is None or self._is_new(table, commit):
                write_deltalake(
                    target,
                    rows.select(table.column_names).cast(table.arrow_schema),
                    mode="append",
                    schema_mode="merge",  # a table of an earlier version may have columns that no longer exist
                    target_file_size=UPSERT_FILE_BYTES if table.kind == "upsert" else None,
                    writer_properties=_WRITER,
                    commit_properties=properties_of(commit),
                )

        self._retry(table, write)

    def _append_file(self, table: Table, rows: pa.Table, commit: Commit) -> None:
        """Appends rows as one file, which takes half the time of a plan of delta-rs."""
        file = TableFile(table, self.directory(table), "driver")
        try:
            file.write(rows.select(table.column_names).cast(table.arrow_schema))
            files = list(file.close())
        except OSError as error:
            raise self._lakehouse.failure(table, "written", error) from error
        self.append_files(table, files, commit)

    def upsert(self, table: Table, change: Change, commit: Commit) -> None:
        source = source_of(table, change)
        if source.num_rows == 0:  # nothing to change, but the batch number must be committed
            self.append_arrow(table, change.rows, commit)
            return

        def merge(target: DeltaTable) -> None:
            if not self._is_new(table, commit):
                return
            if can_rewrite(table, target, source):
                dataset = self._lakehouse.dataset(table, target)
                files = rewrite(table, source, dataset, self.directory(table))
                self._commit_files(table, target, target.version(), files, commit)
                return
            same_key = " AND ".join(f"t.{name} = s.{name}" for name in table.key)
            values = {name: f"s.{name}" for name in table.column_names}
            (
                target.merge(
                    source,
                    same_key + bounds(table, source),
                    source_alias="s",
                    target_alias="t",
                    writer_properties=_WRITER,
                    commit_properties=properties_of(commit),
                )
                .when_matched_delete(f"s.{DELETE}")
                .when_matched_update(values)
                .when_not_matched_insert(values, f"NOT s.{DELETE}")
                .execute()
            )

        self._retry(table, merge)

    def replace(self, table: Table, rows: Callable[[], Iterator[pa.Table]], commit: Commit) -> None:
        schema = table.documented_schema

        def write(target: DeltaTable) -> None:
            parts = (part.select(schema.names).cast(schema) for part in rows())
            batches = (batch for part in parts for batch in part.to_batches())
            write_deltalake(
                target,
                pa.RecordBatchReader.from_batches(schema, batches),
                mode="overwrite",
                schema_mode="overwrite",
                target_file_size=UPSERT_FILE_BYTES,
                writer_properties=_WRITER,
                commit_properties=properties_of(commit),
            )

        self._retry(table, write)

    def newest(self, table: Table) -> DeltaTable:
        """The table at its newest version. Raises TableError."""
        path = self._lakehouse.path(table)
        try:
            target = self._open.get(path)
            if target is None:
                target = self._open[path] = self._lakehouse.delta(table)
            elif not deltalog.is_newest(self._lakehouse.log(table), target.version()):
                target.update_incremental()
            return target
        except (TableNotFoundError, DeltaError, OSError) as error:
            self._open.pop(path, None)
            raise self._lakehouse.failure(table, "read", error) from error

    def _is_new(self, table: Table, commit: Commit) -> bool:
        return self._head(table, commit.writer).number < commit.number

    def _head(self, table: Table, writer: str) -> _Head:
        """The newest version and the writer's last commit. Between commits of its own, a process need not read the log,
        and delta-rs takes milliseconds for each answer."""
        path = self._lakehouse.path(table)
        known = self._heads.get((path, writer))
        if (
            known is None
            or known.handle is not self._open.get(path)
            or not deltalog.is_newest(self._lakehouse.log(table), known.version)
        ):
            target = self.newest(table)
            number = target.transaction_version(writer)
            known = _Head(target, target.version(), -1 if number is None else number)
            self._heads[path, writer] = known
        return known

    def _commit_files(
        self, table: Table, target: DeltaTable, version: int, files: Rewritten, commit: Commit
    ) -> None:
        """Commits files after `version`, as `tidemark.store.commit_files`."""
        if commit_files(self._lakehouse.log(table), target, version, files, commit):
            head = _Head(target, version + 1, commit.number)
            self._heads[self._lakehouse.path(table), commit.writer] = head

    def _retry(self, table: Table, act: Callable[[DeltaTable], None]) -> None:
        """Acts on the newest version."""
        self._attempt(table, lambda: act(self.newest(table)))

    def _attempt(self, table: Table, act: Callable[[], None]) -> None:
        """Acts again after a conflict, for example with upkeep in another process."""
        for attempt in range(_ATTEMPTS):
            try:
                act()
                return
            except (DeltaError, OSError, pa.ArrowException) as error:
                self._open.pop(self._lakehouse.path(table), None)
                if not is_conflict(error):
                    raise self._lakehouse.failure(table, "written", error) from error
                if attempt == _ATTEMPTS - 1:
                    raise conflict(table.name, _ATTEMPTS, error) from error

    def _add_columns(self, table: Table) -> None:
        target = self.newest(table)
        there = {field.name: field.type for field in target.schema().fields}
        wanted = Schema.from_arrow(table.arrow_schema).fields
        for field in wanted:
            if field.name in there and there[field.name] != field.type:
                raise TableError(
                    f"table {table.name} has column {field.name} as {there[field.name]}, not {field.type}",
                    "It was made by another version: use that one, or rebuild the table.",
                )
        lacking = [field for field in wanted if field.name not in there]
        if lacking:
            target.alter.add_columns(lacking)


def _set_properties(properties: Mapping[str, str], target: DeltaTable) -> None:
    there = target.metadata().configuration
    if changed := {name: value for name, value in properties.items() if there.get(name) != value}:
        target.alter.set_table_properties(changed, raise_if_not_exists=False)


def _configuration(table: Table, properties: Mapping[str, str]) -> dict[str, str | None]:
    configuration: dict[str, str | None] = {**table.properties, **properties, **UPKEEP_PROPERTIES}
    if table.kind == "upsert":
        configuration["delta.targetFileSize"] = str(UPSERT_FILE_BYTES)
    return configuration
