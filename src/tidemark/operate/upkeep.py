"""Upkeep of a home's tables: compaction, vacuum, retention, short logs. Safe beside running flows.

Live tables need cleaning: an upsert rewrites a file of about 1 MiB twice a second, and each append adds a
small file. Upkeep does not disturb the flows:

- Compaction never changes data (`dataChange=false`), so no stream sees it. A table that a stream reads is
  compacted at the newest version that the stream has passed, so it never removes a file that the
  stream has not read yet. Upsert tables are compacted between batches.
- Old files and log entries stay for `version_retention_seconds`, for readers of old versions.
- While a rebuild reads the append tables, they are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from tidemark.contract.files import STATISTICS_BYTES
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.contract.table import Table
from tidemark.errors import first_line
from tidemark.figures.reader_delta import execute
from tidemark.home import Home
from tidemark.operate import old_accounts
from tidemark.operate.privacy_notes import note_recounted_days
from tidemark.operate.retention import delete_expired, expired_ends, expiry, record_kept, retention_days
from tidemark.operate.topic_erasure import erase_records, in_bronze
from tidemark.privacy.salts import Salts
from tidemark.store import deltalog
from tidemark.store.deltars import UPKEEP_PROPERTIES
from tidemark.store.rewriting import UPSERT_FILE_BYTES
from tidemark.stream import lock

# Files grow to these sizes one after the other. A compaction rewrites every file that is smaller than its size, so with
# the last size alone each one would write the newest file again, every two minutes until it is full.
APPEND_FILE_BYTES = (512 << 10, 4 << 20, 32 << 20)
# With fewer small files than this, a compaction costs more than it saves.
MOST_SMALL_FILES = 8
_WRITER = WriterProperties(
    compression="ZSTD", compression_level=3, statistics_truncate_length=STATISTICS_BYTES
)
_COMMIT = CommitProperties(max_commit_retries=100)
_ATTEMPTS = 5


@dataclass(frozen=True)
class Done:
    """Result of the upkeep of one table. `skipped`: why something was left for the next run."""

    table: str
    files_before: int
    files_after: int
    files_deleted: int = 0
    bytes_freed: int = 0
    log_files_deleted: int = 0
    rows_expired: int = 0
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def maintain(home: Home, *, hot_only: bool = False, at_once: bool = False) -> list[Done]:
    """Maintains every existing table of the home, and returns the results.

    With `hot_only` only vacuums and shortens logs, which is quick; with `at_once` also deletes the files of rows whose
    time is over without waiting for readers of old versions, and if that of lines is limited, those of all Kafka's
    records that are in bronze. Raises SettingError for a retention that makes no sense, TableError for a table that
    cannot be read.
    """
    settings, now = home.settings, datetime.now(UTC)
    retention_days(settings.upkeep.retention_days, home.tables)
    Salts.of(settings).expire()
    done, ends = [], dict[int, int]()
    with lock.upkeep(settings) as no_rebuild:
        # Old files are deleted below, so the device must have the files that replaced them
        # `version_retention_seconds` ago.
        home.lakehouse.sync()
        for table in home.tables:
            if home.lakehouse.exists(table):
                upkeep = _Upkeep(home, table, in_use=not no_rebuild)
                condition = "" if hot_only else expiry(home, table, now)
                if condition and table in home.graph.sources and (no_rebuild or table.kind == "upsert"):
                    record_kept(home, table, now)
                    if table.lines == "all":
                        ends = expired_ends(home, condition)
                done.append(upkeep.run(None if hot_only else condition))
    if settings.kafka.uses_embedded_broker:
        if at_once and settings.retention.age("lines"):
            # Kafka deletes whole files, and newer records may share one with those whose time is over.
            erase_records(home)
        elif ends:
            at_most = in_bronze(home)
            # Lines of files have partitions that no Kafka has.
            ends = {p: min(end, at_most[p]) for p, end in ends.items() if p in at_most}
            erase_records(home, ends, segments=False)
    if not hot_only:
        note_recounted_days(home)
    if at_once:
        # Upkeep of before may have deleted the rows, and left the files to readers of old versions.
        names = {entry.table for entry in done}
        erase_old_versions(home.only([t for t in home.tables if t.name in names and expiry(home, t, now)]))
    return done


def erase_old_versions(home: Home) -> list[str]:
    """Deletes at once every file that the newest version of a table does not have, even if somebody reads it.

    Gives the names of tables where a flow has yet to read such files: there they stay until the upkeep
    after that.
    """
    left = []
    settings = home.settings
    with lock.upkeep(settings), lock.at_rest(settings):
        home.lakehouse.sync()  # the device must have the new files before the old ones are deleted
        for table in home.tables:
            if not _Upkeep(home, table, in_use=False).erase():
                left.append(table.name)
    return left


class _Upkeep:
    """The upkeep of one table."""

    def __init__(self, home: Home, table: Table, *, in_use: bool) -> None:
        self._settings = home.settings
        self._lakehouse = home.lakehouse
        self._table = table
        self._log = home.lakehouse.log(table)
        self._checkpoints: Sequence[Path] = home.readers.get(table.name, ())
        self._in_use = in_use and table.kind == "append"
        self._patient = table in home.graph.patient
        self._skipped = ""
        self._opened: DeltaTable | None = None

    def _newest(self) -> DeltaTable:
        """The table at its newest version, opened once: reading the commits since then takes far less time."""
        if self._opened is None:
            self._opened = self._lakehouse.delta(self._table)
        else:
            self._opened.update_incremental()
        return self._opened

    def run(self, expired_if: str | None) -> Done:
        """`expired_if`: the condition for rows to delete, empty for none; None skips everything that takes long."""
        try:
            target = self._newest()
            before = len(target.file_uris())
            self._configure(target)
            expired = 0
            if expired_if is not None and not self._in_use:
                if expired_if:
                    with self._rest():
                        expired = self._retry(lambda t: delete_expired(t, expired_if), "expired") or 0
                if self._table.name == ACCOUNTS.name:
                    self._retry(self._sum_old, "summed per day")
                self._compact()
            deleted, freed = self._vacuum()
            cleaned = deltalog.clean(
                self._log, self._oldest_needed(), self._settings.upkeep.version_retention_seconds
            )
            after = len(self._newest().file_uris())
        except (DeltaError, OSError, ValueError) as error:
            raise self._lakehouse.failure(self._table, "maintained", error) from error
        skipped = "in use by a rebuild" if self._in_use else self._skipped
        return Done(self._table.name, before, after, deleted, freed, cleaned, expired, skipped)

    def _configure(self, target: DeltaTable) -> None:
        """Tells every writer how long old versions stay; logs are shortened here alone, because only
        here it is known how far the streams have read."""
        seconds = max(1, round(self._settings.upkeep.version_retention_seconds))
        wanted = UPKEEP_PROPERTIES | {"delta.deletedFileRetentionDuration": f"interval {seconds} seconds"}
        there = target.metadata().configuration
        if any(there.get(name) != value for name, value in wanted.items()):
            with lock.at_rest(self._settings):
                self._retry(lambda t: t.alter.set_table_properties(wanted), "configured")

    def _sum_old(self, target: DeltaTable) -> None:
        now = datetime.now(UTC)
        query = old_accounts.summed("accounts", now)
        rows = execute(query, {"accounts": target}).read_all()
        if all(number == 1 for number in rows[old_accounts.BATCHES].to_pylist()):
            return
        with lock.at_rest(self._settings):
            write_deltalake(
                target,
                rows.select(ACCOUNTS.column_names).cast(ACCOUNTS.arrow_schema),
                mode="overwrite",
                predicate=old_accounts.old(now),
                writer_properties=_WRITER,
                commit_properties=_COMMIT,
            )

    def _compact(self) -> None:
        sizes = (UPSERT_FILE_BYTES,) if self._table.kind == "upsert" else APPEND_FILE_BYTES
        target = self._compactable()
        if target is None:
            return
        size = _size_worth_it(target, sizes)
        if size is None:
            return
        with self._rest():
            if self._table.kind == "upsert":
                target = self._newest()
            try:
                target.optimize.compact(
                    target_size=size,
                    max_concurrent_tasks=1,
                    writer_properties=_WRITER,
                    commit_properties=_COMMIT,
                )
            except CommitFailedError as error:
                self._skipped = f"not compacted: {first_line(error)}"

    def _rest(self) -> AbstractContextManager[None]:
        """Every batch rewrites files of an upsert table; only upkeep rewrites those of an append table."""
        if self._table.kind != "upsert":
            return nullcontext()
        return lock.patient_at_rest(self._settings) if self._patient else lock.at_rest(self._settings)

    def _compactable(self) -> DeltaTable | None:
        """The table at the newest version that all its streams have passed; None if there is none, or if files of it
        were replaced since: delta-rs would add their rows a second time, or deleted ones again, without a conflict."""
        passed = self._passed()
        if passed is None:
            return self._newest()
        if passed > 0:
            target = self._lakehouse.delta(self._table, passed)
            if {*target.file_uris()} <= {*self._newest().file_uris()}:
                return target
        self._skipped = "not compacted: a flow has yet to read it"
        return None

    def _position(self, checkpoint: Path) -> dict[str, Any]:
        return deltalog.stream_offset(checkpoint, table=str(self._newest().metadata().id))

    def _passed(self) -> int | None:
        """The newest version that all streams have passed, -1 if unknown; None without streams."""
        versions = []
        for checkpoint in self._checkpoints:
            passed = deltalog.passed_version(self._log, self._position(checkpoint))
            versions.append(-1 if passed is None else passed)
        return min(versions, default=None)

    def _vacuum(self) -> tuple[int, int]:
        """Deletes files that no version within the retention has. Returns their number and bytes."""
        if self._in_use or self._streams_need_old_files():
            return 0, 0
        sizes: dict[str, int] = {}

        def act(target: DeltaTable) -> None:
            old_files = target.vacuum(dry_run=True, enforce_retention_duration=False, full=True)
            known = self._log.files.sizes(self._log.table) if old_files else {}
            there = {name: known[name] for name in old_files if name in known}
            sizes.update(there)
            if not there:
                return
            removed = target.vacuum(dry_run=True, enforce_retention_duration=False, full=False)
            # With the clock set forward, a file that is not committed yet looks old, too.
            unnamed = bool(there.keys() - set(removed))
            with lock.nobody_writes(self._settings) if unnamed else nullcontext():
                self._newest().vacuum(
                    dry_run=False, enforce_retention_duration=False, full=unnamed, commit_properties=_COMMIT
                )

        # Vacuum commits, too, and may conflict. Files deleted until then stay deleted.
        self._retry(act, "vacuumed")
        left = self._log.files.sizes(self._log.table) if sizes else {}
        deleted = [size for name, size in sizes.items() if name not in left]
        return len(deleted), sum(deleted)

    def erase(self) -> bool:
        """Deletes files that the newest version does not have; false if a stream has not read them yet."""
        if self._streams_need_old_files():
            return False
        self._newest().vacuum(
            retention_hours=0,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            commit_properties=_COMMIT,
        )
        return True

    def _streams_need_old_files(self) -> bool:
        """Whether a stream has not yet read a file that the newest version no longer has."""
        for checkpoint in self._checkpoints:
            offset = self._position(checkpoint)
            if not offset:
                continue
            first = int(offset["reservoirVersion"])
            unread = {file for _, files in deltalog.waiting(self._log, first) for file in files}
            current = {Path(uri).name for uri in self._newest().file_uris()}
            if offset["isStartingVersion"] or not {Path(file).name for file in unread} <= current:
                self._skipped = "not vacuumed: a flow has yet to read old files"
                return True
        return False

    def _oldest_needed(self) -> int | None:
        """The first version of the log that a stream needs; None without streams."""
        offsets = [self._position(checkpoint) for checkpoint in self._checkpoints]
        return min((int(offset.get("reservoirVersion", 0)) - 1 for offset in offsets), default=None)

    def _retry(self, act: Callable[[DeltaTable], Any], done: str) -> Any:
        """Others commit at the same time; then it is tried again on the newest version. None if it was in vain
        each time: then it is left for the next time."""
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                return act(self._newest())
            except CommitFailedError as error:
                reason = first_line(error)
        self._skipped = f"not {done}: {reason}"
        return None


def _size_worth_it(target: DeltaTable, sizes: Sequence[int]) -> int | None:
    """The first size to which a compaction is worth it, because enough files are smaller than half of it; None if there
    is none."""
    files = pa.table(target.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return next((size for size in sizes if sum(file < size / 2 for file in files) >= MOST_SMALL_FILES), None)
