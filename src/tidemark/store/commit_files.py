"""Commits of data files: written into the log directly where that is safe, because delta-rs takes several times as long
for a commit."""

from __future__ import annotations

import time

from deltalake import CommitProperties, DeltaTable, Transaction, transaction

from tidemark.contract.store import Commit
from tidemark.contract.table import CHECKPOINTS
from tidemark.store import deltalog
from tidemark.store.deltalog import Log
from tidemark.store.rewriting import WRITER_VERSION, Rewritten

_CHECKPOINT_INTERVAL = int(CHECKPOINTS["delta.checkpointInterval"])


def commit_files(log: Log, target: DeltaTable, version: int, files: Rewritten, commit: Commit) -> bool:
    """Commits files after `version`, the newest one, of which `target` has the protocol and the schema. Returns whether
    the commit is `version` + 1; delta-rs, where it commits, may choose a later one. Raises FileExistsError if the log
    has that version already, DeltaError, OSError."""
    new = version + 1
    if target.protocol().min_writer_version > WRITER_VERSION or not deltalog.commit(
        log, new, _actions(files, commit)
    ):
        _commit_by_delta(target, files, commit)
        return False
    if (new + 1) % _CHECKPOINT_INTERVAL == 0:  # as delta-rs counts
        target.update_incremental()
        target.create_checkpoint()
    return True


def properties_of(commit: Commit | None) -> CommitProperties:
    """The numbers of the writer, for a commit by delta-rs."""
    numbers = [(commit.writer, commit.number), *commit.also] if commit else []
    return CommitProperties(app_transactions=[Transaction(*each) for each in numbers] or None)


def _actions(files: Rewritten, commit: Commit) -> list[deltalog.Action]:
    now = time.time_ns() // 1_000_000
    about = {"timestamp": now, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    return [
        {"commitInfo": {**about, "engineInfo": "tidemark"}},
        *(deltalog.remove(path, size, now) for path, size in files.removed),
        *(deltalog.add(file, now) for file in files.added),
        *(
            {"txn": {"appId": writer, "version": number}}
            for writer, number in ((commit.writer, commit.number), *commit.also)
        ),
    ]


def _commit_by_delta(target: DeltaTable, files: Rewritten, commit: Commit) -> None:
    now = time.time_ns() // 1_000_000
    removed = [transaction.RemoveAction(path, True, now, size, {}) for path, size in files.removed]
    added = [transaction.AddAction(file.path, file.bytes, {}, now, True, file.stats) for file in files.added]
    target.create_write_transaction(
        [*removed, *added], "append", target.schema(), commit_properties=properties_of(commit)
    )
