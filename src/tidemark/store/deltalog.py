"""The files of a Delta log on this machine: what commits did, how far a stream has read, what can go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_DIGITS = 20


def commit_file(log: Path, version: int) -> Path:
    """The file of one commit."""
    return log / f"{version:0{_DIGITS}}.json"


def actions(log: Path, version: int) -> list[dict[str, Any]]:
    """What a commit did, as in the Delta protocol. Raises FileNotFoundError if the log has no such version."""
    text = commit_file(log, version).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def added(commit: list[dict[str, Any]]) -> list[str]:
    """Files whose rows a stream gets from a commit: none if it rewrites rows (`skipChangeCommits`)."""
    if any(action.get("remove", {}).get("dataChange") for action in commit):
        return []
    return [action["add"]["path"] for action in commit if action.get("add", {}).get("dataChange")]


def waiting(log: Path, first: int) -> Iterator[tuple[int, list[str]]]:
    """(version, files) of the commits from `first` on: what a stream that stands there will read."""
    version = first
    while commit_file(log, version).exists():
        yield version, added(actions(log, version))
        version += 1


def stream_offset(checkpoint: Path, batch: int | None = None) -> dict[str, Any]:
    """Where a stream stood after a batch (default: the last one committed); {} before the first.

    Raises FileNotFoundError for a batch that the checkpoint no longer has.
    """
    if batch is None:
        batch = last_batch(checkpoint)
    if batch < 0:
        return {}
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    offset: dict[str, Any] = json.loads(lines[2])
    return offset


def last_batch(checkpoint: Path) -> int:
    """Number of the last batch that a checkpoint has as committed, -1 if none."""
    return max((int(p.name) for p in (checkpoint / "commits").glob("*") if p.name.isdigit()), default=-1)


def writer(flow: str, checkpoint: Path) -> str:
    """Under which name the flow that has this checkpoint commits to tables; empty before its first run."""
    try:
        return f"{flow}/{json.loads((checkpoint / 'metadata').read_text(encoding='utf-8'))['id']}"
    except FileNotFoundError:
        return ""


def passed_version(log: Path, offset: dict[str, Any]) -> int | None:
    """The newest version of a table of which a stream that stands at `offset` has read all rows.

    None while it is within a version, or within the table as it was when the stream started.
    """
    if not offset or offset["isStartingVersion"] or offset["index"] >= 0:
        return None
    passed = int(offset["reservoirVersion"]) - 1
    for version, files in waiting(log, passed + 1):
        if files:
            break
        passed = version
    return passed


def clean(log: Path, keep_from: int | None, keep_seconds: float) -> int:
    """Deletes commits that no reader needs; gives the number of files deleted.

    Kept are the newest checkpoint that covers everything older than `keep_seconds`, and not newer
    than version `keep_from` (None: no such limit), and all that follows it.
    """
    cut = time.time() - keep_seconds
    found = {path: version_of(path) for path in log.iterdir()}
    old = [
        version for path, version in found.items()
        if path.suffix == ".json" and version is not None and path.stat().st_mtime < cut
    ]  # fmt: skip
    limit = max(old, default=-1) if keep_from is None else min(max(old, default=-1), keep_from)
    base = max(
        (v for p, v in found.items() if v is not None and _is_checkpoint(p) and v <= limit), default=-1
    )
    gone = [path for path, version in found.items() if version is not None and version < base]
    # Commits before their checkpoints: at no moment can a version be listed that cannot be read.
    for path in sorted(gone, key=lambda path: (_is_checkpoint(path), found[path])):
        with suppress(FileNotFoundError):
            path.unlink()
    return len(gone)


def version_of(path: Path) -> int | None:
    """Version that a file of the log belongs to; None for one that belongs to no version."""
    digits = path.name[:_DIGITS]
    return int(digits) if digits.isdigit() and len(digits) == _DIGITS else None


def _is_checkpoint(path: Path) -> bool:
    return ".checkpoint." in path.name
