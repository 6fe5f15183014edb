"""Records of running processes in a home, and the replacement of a file as a whole."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark.local.durable import sync_file
from tidemark.local.process import process_mark

# The directory that a record of a process was written to.
_DIRECTORY = "directory"


def write_record(path: Path, pid: int | None = None, **facts: Any) -> None:
    """Writes a run record atomically: `facts`, and, with a `pid`, the process they describe."""
    record = dict(facts)
    if pid is not None:
        record |= {
            _DIRECTORY: _identity(path.parent),
            "pid": pid,
            "pid_mark": process_mark(pid),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    replace_text(path, json.dumps(record) + "\n")


def replace_text(path: Path, text: str, mode: int = 0o666, *, durable: bool = False) -> None:
    """Replaces a file atomically: readers find the complete old or new text, even after a kill. `mode` is that
    of `open`, minus the umask. A `durable` text is on the device at the return, and a power failure before leaves the
    old one."""
    # Neither a process nor a thread is unique: queries are threads, and containers number their processes alike.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        unfinished.touch(mode)
        unfinished.write_text(text, encoding="utf-8")
        if durable:
            sync_file(unfinished)
        unfinished.replace(path)
        if durable:
            sync_file(path.parent)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read_record(path: Path) -> dict[str, Any]:
    """The run record at `path`, whether or not its process lives; empty if it is missing or unreadable, or is a copy
    from another home, whose processes are not this one's."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        directory = _identity(path.parent)
    except (OSError, ValueError):
        return {}
    own = isinstance(record, dict) and record.get(_DIRECTORY, directory) == directory
    return record if own else {}


def _identity(directory: Path) -> str:
    """Stays when the directory is moved, and differs in a copy of it."""
    there = directory.stat()
    return f"{there.st_dev}:{there.st_ino}"


def is_live(record: Mapping[str, Any]) -> bool:
    """Whether the process of a run record still runs. `pid_mark` distinguishes it from a later one with the same
    pid."""
    pid = record.get("pid")
    mark = process_mark(pid) if isinstance(pid, int) else None
    return bool(mark) and mark == record.get("pid_mark", mark)


def live_record(path: Path) -> dict[str, Any] | None:
    """The run record at `path` if its process still runs, else None."""
    record = read_record(path)
    return record if is_live(record) else None
