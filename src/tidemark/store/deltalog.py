"""The files of a Delta log: actions of commits, positions of streams, cleaning."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pyarrow import fs

from tidemark.contract.store import DataFile, Files

_DIGITS = 20
# Spark's sign for a source without a position.
_NO_OFFSET = "-"
# Commits of a table that is still new.
_MOST_NEW = 20

# An action of a commit, as in the Delta protocol.
Action = dict[str, Any]


@dataclass(frozen=True)
class Log:
    """The log of the table in the directory `table` of `files`."""

    files: Files
    table: str

    @property
    def directory(self) -> str:
        return f"{self.table}/_delta_log"

    def entries(self) -> list[fs.FileInfo]:
        """The log's files, by name."""
        return list(self.files.list(self.directory))


def is_newest(log: Log, version: int) -> bool:
    """Whether the log has this version and not the next one. Listing a long log takes milliseconds, this does not."""
    there = (log.files.size(_commit(log, number)) is not None for number in (version, version + 1))
    return tuple(there) == (True, False)


def commit(log: Log, version: int, made: Sequence[Action]) -> bool:
    """Commits actions as this version. Returns false where only delta-rs can commit to the storage; raises
    FileExistsError if the log has the version, OSError."""
    text = "".join(f"{json.dumps(action)}\n" for action in made)
    return log.files.create(_commit(log, version), text.encode())


def add(file: DataFile, now: int) -> Action:
    """The action that adds a new file to a table without partitions; `now` in milliseconds."""
    about = {"size": file.bytes, "modificationTime": now, "dataChange": True, "stats": file.stats}
    return {"add": {"path": quote(file.path), "partitionValues": {}, **about}}


def remove(path: str, size: int, now: int) -> Action:
    """The action that removes a file, with the columns of `add`."""
    about = {"size": size, "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
    return {"remove": {"path": quote(path), "partitionValues": {}, **about}}


def actions(log: Log, version: int) -> list[Action]:
    """The actions of a commit, as in the Delta protocol. Raises FileNotFoundError if the log has no such version."""
    # As bytes: a text would also be split at characters that JSON does not escape, such as U+2028.
    return [json.loads(line) for line in log.files.read(_commit(log, version)).splitlines() if line.strip()]


def _commit(log: Log, version: int) -> str:
    return f"{log.directory}/{version:0{_DIGITS}}.json"


def commits(log: Log, first: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(version, actions) of the commits from `first` on."""
    version = first
    while True:
        try:
            entries = actions(log, version)
        except FileNotFoundError:
            return
        yield version, entries
        version += 1


def versions(log: Log) -> list[int]:
    """The versions of the commits in the log."""
    numbers = (version_of(entry.base_name) for entry in log.entries() if entry.extension == "json")
    return sorted(version for version in numbers if version is not None)


def added(commit: list[dict[str, Any]]) -> list[str]:
    """Files whose rows a stream gets from a commit: those of its changes, where the table keeps them (Delta's change
    data feed); otherwise none if it rewrites rows (`skipChangeCommits`)."""
    changes = [action["cdc"]["path"] for action in commit if action.get("cdc")]
    if changes:
        return changes
    if any(action.get("remove", {}).get("dataChange") for action in commit):
        return []
    return [action["add"]["path"] for action in commit if action.get("add", {}).get("dataChange")]


def rows_added(commit: list[dict[str, Any]]) -> int:
    """Rows that a commit added, except by compaction or as rewritten ones, which no stream gets."""
    if not added(commit):
        return 0
    adds = [action["add"] for action in commit if action.get("add", {}).get("dataChange")]
    return sum(int(json.loads(add["stats"]).get("numRecords", 0)) for add in adds if add.get("stats"))


@dataclass(frozen=True)
class Moved:
    """The data files that a commit removed and added, with their paths relative to the table, and the numbers of
    writers that it set.

    The rows of the added files without those of the removed ones are the change of the table's rows, as multisets.
    """

    version: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    bytes: int
    numbers: tuple[tuple[str, int], ...]


def moved(log: Log, first: int, last: int) -> list[Moved] | None:
    """The changes of the commits `first` to `last`, without those that changed no rows, such as compaction; None if the
    log no longer has them, or files alone do not show them."""
    moves = []
    for version in range(first, last + 1):
        try:
            commit = actions(log, version)
        except FileNotFoundError:
            return None
        removed = [a["remove"] for a in commit if a.get("remove", {}).get("dataChange")]
        added = [a["add"] for a in commit if a.get("add", {}).get("dataChange")]
        if any(file.get("deletionVector") for file in (*removed, *added)):
            return None
        if removed or added:
            gone, new = (tuple(unquote(file["path"]) for file in files) for files in (removed, added))
            size = sum(int(file.get("size") or 0) for file in (*removed, *added))
            numbers = tuple((a["txn"]["appId"], int(a["txn"]["version"])) for a in commit if a.get("txn"))
            moves.append(Moved(version, gone, new, size, numbers))
    return moves


def waiting(log: Log, first: int) -> Iterator[tuple[int, list[str]]]:
    """(version, files) of the commits from `first` on, which a stream at this position will read."""
    return ((version, added(commit)) for version, commit in commits(log, first))


def checkpoints(root: Path) -> list[Path]:
    """The checkpoints of all queries below a directory, those of jobs included."""
    return [path.parent for depth in ("*", "*/*") for path in sorted(root.glob(f"{depth}/offsets"))]


def offsets(checkpoint: Path, batch: int | None = None) -> list[dict[str, Any]]:
    """The positions of a query in its sources after a batch (default: the last committed one); [] before the first.

    Raises FileNotFoundError for a batch that the checkpoint no longer has.
    """
    if batch is None:
        batch = last_batch(checkpoint)
    if batch < 0:
        return []
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[2:] if line != _NO_OFFSET]


def stream_offset(checkpoint: Path, batch: int | None = None, table: str | None = None) -> dict[str, Any]:
    """The same for a query with one source, or for its source that is the Delta table with the id `table`; {} before
    the first batch."""
    recorded = offsets(checkpoint, batch)
    return next((each for each in recorded if table is None or each.get("reservoirId") == table), {})


def last_batch(checkpoint: Path, log: str = "commits") -> int:
    """Number of the last committed batch of a checkpoint, or with `offsets` of the last planned one; -1 if none."""
    return max((int(p.name) for p in (checkpoint / log).glob("*") if p.name.isdigit()), default=-1)


def writer(flow: str, checkpoint: Path) -> str:
    """The writer name of the flow with this checkpoint; empty before its first run."""
    try:
        return f"{flow}/{json.loads((checkpoint / 'metadata').read_text(encoding='utf-8'))['id']}"
    except FileNotFoundError:
        return ""


def passed_version(log: Log, offset: dict[str, Any]) -> int | None:
    """The newest version of a table whose rows a stream at `offset` has read completely.

    None while it is within a version, or within the initial table.
    """
    if not offset or offset["isStartingVersion"] or offset["index"] >= 0:
        return None
    passed = int(offset["reservoirVersion"]) - 1
    for version, files in waiting(log, passed + 1):
        if files:
            break
        passed = version
    return passed


def clean(log: Log, keep_from: int | None, keep_seconds: float) -> int:
    """Deletes commits that no reader needs. Returns the number of deleted files.

    Keeps the newest checkpoint that covers everything older than `keep_seconds` and is not newer
    than version `keep_from` (None: no such limit), and all later files.
    """
    oldest = time.time() - keep_seconds
    expired = [
        (".checkpoint." in entry.base_name, version, entry)
        for entry in log.entries()
        if (version := version_of(entry.base_name)) is not None
    ]
    old = [v for _, v, entry in expired if entry.extension == "json" and entry.mtime.timestamp() < oldest]
    limit = max(old, default=-1) if keep_from is None else min(max(old, default=-1), keep_from)
    base = max(
        (version for is_checkpoint, version, _ in expired if is_checkpoint and version <= limit), default=-1
    )
    gone = [each for each in expired if each[1] < base]
    # Commits before their checkpoints, so that every listed version can be read at any moment.
    for _, _, entry in sorted(gone, key=lambda each: each[:2]):
        log.files.delete(entry.path)
    return len(gone)


def is_new(log: Log) -> bool:
    """Whether a table has only a few commits, from version 0 on, and none that removes rows or changes the schema."""
    known = versions(log)
    if len(known) > _MOST_NEW or known != list(range(len(known))):
        return False
    known_actions = [action for version in known for action in actions(log, version)]
    schemas = {action["metaData"]["schemaString"] for action in known_actions if action.get("metaData")}
    return len(schemas) == 1 and not any(action.get("remove") for action in known_actions)


def version_of(name: str) -> int | None:
    """Version of a file of the log; None if it belongs to no version."""
    digits = name[:_DIGITS]
    return int(digits) if digits.isdigit() and len(digits) == _DIGITS else None
