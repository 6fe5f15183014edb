"""Reads Delta tables of a home or at a URL with `deltalake`; its DataFusion engine prunes, filters and aggregates."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import first_line, refused_file, shortage
from tidemark.figures.dialects import DataFusion
from tidemark.figures.query import Query
from tidemark.figures.reader import (
    Contract,
    Files,
    MissingTableError,
    ReadError,
    ShortageError,
    Version,
    again,
    plain,
    properties_of,
    unreadable,
)
from tidemark.figures.render import render
from tidemark.figures.scan import scan, suits

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


class DeltaReader:
    """Tables at `<home>/tables/<layer>/<table>`, or at `<location>/<layer>/<table>`, a URL such as
    s3a://bucket/tidemark. `options` are delta-rs' storage options. Keeps one handle a table and moves it forward.

    Safe to share between threads: a query runs on the handle's snapshot under that table's lock.
    """

    def __init__(self, home: Path, location: str = "", options: dict[str, str] | None = None) -> None:
        self.label = location or str(home)
        # The name that Hadoop has for S3 is not everybody's.
        self.root = location.rstrip("/").replace("s3a://", "s3://") or str(home / "tables")
        self._local = not location
        self._options = options
        self._handles: dict[str, DeltaTable] = {}
        self._versions: dict[str, Version] = {}
        # By table and column of time, with the handle and the version that they are of.
        self._files: dict[tuple[str, str], tuple[DeltaTable, int, Files | None]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    @again
    def version(self, table: str) -> Version | None:
        with self._table_lock(table):
            try:
                handle = self._latest(table)
            except MissingTableError:
                return None
            known = self._versions.get(table)
            number = handle.version()
            if known is None or known.number != number:
                with self._forgetting([table]):
                    known = Version(number, _committed_at(handle))
                self._versions[table] = known
            return known

    @again
    def contract(self, table: str) -> Contract:
        with self._table_lock(table):
            handle = self._latest(table)
            configuration = handle.metadata().configuration
            columns = {field.name: field.metadata.get("comment", "") for field in handle.schema().fields}
        return Contract(properties_of(configuration), columns)

    @again
    def files(self, table: str, time: str) -> Files | None:
        with self._table_lock(table):
            handle = self._latest(table)
            known = self._files.get((table, time))
            if known is None or known[0] is not handle or known[1] != handle.version():
                with self._forgetting([table]):
                    known = (handle, handle.version(), _files_of(handle, time))
                self._files[table, time] = known
            return known[2]

    @again
    def arrow(self, q: Query) -> pa.Table:
        with self._tables(q) as handles:
            # In plain types: a view of text holds the whole file's text in memory.
            return plain(_execute(q, handles).read_all())

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        import pyarrow as pa

        # A table elsewhere is read by the engine, which asks for all it needs at once.
        if not self._local or not suits(q):
            return self.arrow(q).to_reader()
        with self._tables(q) as handles:
            scanned = scan(handles[q.table], q, names)

        def batches() -> Iterator[pa.RecordBatch]:
            with self._forgetting([q.table]):
                yield from scanned

        return pa.RecordBatchReader.from_batches(scanned.schema, batches())

    def batches(self, q: Query) -> pa.RecordBatchReader:
        """The rows of a query in plain types, some at a time. Raises MissingTableError or ReadError."""
        import pyarrow as pa

        with self._tables(q) as handles:
            stream = _execute(q, handles)
        schema = plain(stream.schema.empty_table()).schema

        def batches() -> Iterator[pa.RecordBatch]:
            with self._forgetting([q.table]):
                for batch in stream:
                    yield from plain(pa.Table.from_batches([batch])).to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())

    @contextmanager
    def _tables(self, q: Query) -> Iterator[dict[str, DeltaTable]]:
        """The handles of a query's tables, under their locks."""
        with ExitStack() as locks:
            # In one order, so that two queries of the same tables never wait for each other.
            for table in sorted(q.tables()):
                locks.enter_context(self._table_lock(table))
            handles = {table: self._latest(table) for table in q.tables()}
            with self._forgetting([q.table, *handles]):
                yield handles

    @contextmanager
    def _forgetting(self, tables: Sequence[str]) -> Iterator[None]:
        """Reopens these tables the next time if they could not be read; the error names the first one."""
        try:
            yield
        except Exception as error:
            for table in tables:
                self._handles.pop(table, None)
            raise _unreadable(tables[0], error) from error

    def _latest(self, table: str) -> DeltaTable:
        """The table's handle at its newest version. Reopened when the table was replaced or broke."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        path = f"{self.root}/{table}"
        if self._local and not Path(path, "_delta_log").is_dir():
            self._handles.pop(table, None)
            raise MissingTableError(f"{table} does not exist yet")
        try:
            handle = self._handles.get(table)
            if handle is not None and self._local and not _log_entry(Path(path), handle.version()):
                handle = None
            if handle is None:
                handle = self._handles[table] = DeltaTable(path, storage_options=self._options)
                self._versions.pop(table, None)
            # A look at the next version's file is a thousand times as fast as asking for it.
            elif not self._local or _commit(Path(path), handle.version() + 1).exists():
                handle.update_incremental()
            return handle
        except TableNotFoundError as error:
            self._handles.pop(table, None)
            raise MissingTableError(f"{table} does not exist yet") from error
        except Exception as error:
            self._handles.pop(table, None)
            raise _unreadable(table, error) from error

    def _table_lock(self, table: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(table, threading.Lock())


def execute(sql: str, tables: Mapping[str, DeltaTable]) -> pa.RecordBatchReader:
    """The rows of a query in SQL over tables under these names.

    Python's other threads run while Arrow reads them. They do not while delta-rs' own reader does (`read_all`): a
    dashboard would answer nobody until the end of a query.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder

    builder = QueryBuilder()
    for name, table in tables.items():
        builder = builder.register(name, table)
    return pa.RecordBatchReader.from_stream(builder.execute(sql))


def _execute(q: Query, handles: Mapping[str, DeltaTable]) -> pa.RecordBatchReader:
    tables = {_source(table): handle for table, handle in handles.items()}
    return execute(render(q, _source, DataFusion()), tables)


def _source(table: str) -> str:
    return table.replace("/", "_")


def _log_entry(path: Path, version: int) -> bool:
    """Whether the log still has the entries that the handle was built on; False after the table was recreated."""
    commit = _commit(path, version)
    return commit.exists() or any(commit.parent.glob(f"{commit.stem}.checkpoint*"))


def _commit(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def _files_of(handle: DeltaTable, time: str) -> Files | None:
    import pyarrow as pa

    # A vector of deleted rows changes a file's rows.
    if "deletionVectors" in (handle.protocol().reader_features or ()):
        return None
    actions = pa.table(handle.get_add_actions(flatten=True))
    ends = (f"min.{time}", f"max.{time}")
    if not {*ends} <= {*actions.column_names} or any(actions[name].null_count for name in ends):
        return None
    first, last = (actions[name].cast(pa.timestamp("us", "UTC")).to_pylist() for name in ends)
    # Some writers cut the greatest time to milliseconds.
    most = [moment + timedelta(milliseconds=1) for moment in last]
    return list(zip(actions["path"].to_pylist(), first, most, strict=True))


def _committed_at(handle: DeltaTable) -> datetime:
    entry = handle.history(1)[0]
    return datetime.fromtimestamp(entry["timestamp"] / 1000, tz=UTC)


def _unreadable(table: str, error: BaseException) -> ReadError:
    reason = first_line(error)[:300].rstrip(".")
    if lack := shortage(error, f"{table} cannot be read: {reason}"):
        return ShortageError(lack.problem, lack.remedy)
    if refused := refused_file(error, f"{table} cannot be read"):
        return ReadError(refused.problem, refused.remedy)
    return unreadable(table, reason, "If this lasts, stop the pipeline and run `tidemark repair`.")
