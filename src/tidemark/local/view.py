"""The homes that `tidemark view` keeps in the user's cache directory, each for one set of log files."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidemark.errors import HomeBusyError, unwritable
from tidemark.local.jars import user_cache
from tidemark.local.locks import locked
from tidemark.local.records import read_record, write_record

KEPT_DAYS = 30
MOST_KEPT = 10
# A file that was not written to for this long is complete, its last line too.
QUIET_SECONDS = 2.0
_RECORD = "view.json"
_LOCK = "view.lock"
# Newest commits of a table that are checked. The kernel writes earlier ones to the device in the meantime.
_NEWEST = 12

# Size and time of the last change of each file, by path.
States = Mapping[str, list[int]]


class Kept:
    """A home in the cache, and the record of what was imported into it.

    The record has `files` (their States before the last import), `made` (an identity of the version and settings that
    made the tables), `lasting` (the files can be read again) and `exact` (the tables have all lines of the files).
    `unchanged`: the tables have exactly the lines of the present files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record: dict[str, Any] = read_record(directory / _RECORD)
        self.unchanged = False
        self._lock = threading.Lock()

    def note(self, **changes: Any) -> None:
        """Changes the record, which also counts as a use of the home."""
        with self._lock:
            self.record |= changes
            write_record(self.directory / _RECORD, **self.record)

    @property
    def used_at(self) -> float:
        """When the home was last used, in epoch seconds; 0 if it has been removed."""
        for path in (self.directory / _RECORD, self.directory):
            with suppress(FileNotFoundError):
                return path.stat().st_mtime
        return 0.0

    @property
    def in_use(self) -> bool:
        with suppress(FileNotFoundError), locked(self.directory / _LOCK, wait=False) as free:
            return not free
        return False  # it has been removed

    def size(self) -> int:
        """Bytes on disk. A view that runs may remove files, or the home, meanwhile."""
        size = 0
        for directory, directories, files in os.walk(self.directory):
            for name in (*directories, *files):
                with suppress(FileNotFoundError):
                    size += (Path(directory) / name).lstat().st_blocks * 512
        return size

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class ViewedError(HomeBusyError):
    """Another process shows the same files; `directory` is its home."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(
            "another `tidemark view` shows these files already",
            "Use its dashboard, or stop it with Ctrl-C first.",
        )


def place() -> Path:
    """The directory of the kept homes."""
    return user_cache() / "view"


def kept() -> list[Kept]:
    """The kept homes, the one that was used last first."""
    if not place().is_dir():
        return []
    homes = [Kept(path) for path in place().iterdir() if path.is_dir()]
    return sorted(homes, key=lambda home: home.used_at, reverse=True)


def clear() -> list[tuple[Kept, int]]:
    """Removes the kept homes that are not in use. Returns them with their sizes."""
    gone = []
    if place().is_dir():
        with locked(place() / "lock"):
            for home in kept():
                if not home.in_use:
                    gone.append((home, home.size()))
                    home.remove()
    return gone


@contextmanager
def home_for(
    states: States, identity: str, known: Callable[[Path], int | None], *, lasting: bool
) -> Iterator[Kept]:
    """Holds the home of these files: a kept one whose lines are all among theirs, else a new one.

    `known` returns how many bytes of the files the home in a directory has, None if it has other lines. A home that is
    not `lasting` is removed in the end. Removes homes that are of no use any more. Raises ViewedError if another
    process holds the home of these files, PlatformError if the cache cannot be written.
    """
    with ExitStack() as held:
        try:
            place().mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(place() / "lock"):
                home = _chosen(states, identity, known) if lasting else None
                home = home or Kept(place() / uuid.uuid4().hex[:12])
                home.directory.mkdir(mode=0o700, exist_ok=True)
                held.enter_context(locked(home.directory / _LOCK))
                home.unchanged = bool(home.record.get("exact")) and home.record.get("files") == dict(states)
                home.note(files=dict(states), made=identity, lasting=lasting, exact=home.unchanged)
        except OSError as error:
            raise unwritable(
                f"the cache {place()} cannot be written",
                error,
                "Set XDG_CACHE_HOME to a directory that can be written.",
            ) from error
        try:
            yield home
        finally:
            if not lasting:
                home.remove()


def _chosen(states: States, identity: str, known: Callable[[Path], int | None]) -> Kept | None:
    fitting: list[tuple[bool, int, Kept]] = []
    oldest = time.time() - KEPT_DAYS * 86_400
    for number, home in enumerate(kept()):
        of_these = home.record.get("made") == identity and set(home.record.get("files", ())) == set(states)
        if home.in_use:
            if of_these:
                raise ViewedError(home.directory)
            continue
        # Homes of earlier versions do not say that they are lasting.
        lasting = bool(home.record.get("lasting"))
        size = known(home.directory) if lasting and home.record.get("made") == identity else None
        if size is not None and not _is_damaged(home.directory / "tables"):
            fitting.append((of_these, size, home))
        elif not lasting or of_these or number >= MOST_KEPT - 1 or home.used_at < oldest:
            home.remove()
    return max(fitting, key=lambda each: each[:2])[2] if fitting else None


def _is_damaged(tables: Path) -> bool:
    """Whether a power failure has left a commit without content or without its data, so that the home is of no use."""
    return any(
        not _is_whole(log.parent, sorted(log.glob("*.json"))[-_NEWEST:])
        for log in tables.glob("*/*/_delta_log")
    )


def _is_whole(table: Path, entries: Sequence[Path]) -> bool:
    """Whether the newest entries of a table's log, and the data files that they add, are there."""
    removed: set[str] = set()
    for entry in reversed(entries):
        try:
            actions = [json.loads(line) for line in entry.read_bytes().splitlines()]
            added = [action["add"] for action in actions if "add" in action]
            removed |= {action["remove"]["path"] for action in actions if "remove" in action}
            new = [file for file in added if file["path"] not in removed]
            if not actions or any((table / unquote(f["path"])).stat().st_size != f["size"] for f in new):
                return False
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return False
    return bool(entries)
