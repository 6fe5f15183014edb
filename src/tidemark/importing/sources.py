"""Inputs of an import: files, globs, named pipes, standard input."""

from __future__ import annotations

import glob
import os
import queue
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import InputError, shortage
from tidemark.importing.comments import Comments
from tidemark.importing.lines import Block, LineSplitter
from tidemark.importing.raw import WAIT_SECONDS, Stopped, state_of
from tidemark.importing.reader import Reader

STDIN = "-"
_MISSING = 0


@dataclass(frozen=True)
class Spooled:
    """A regular file at `path` with the content of something that is no file of this machine, such as an object.
    Messages and the progress call it `name`."""

    path: str
    name: str


def open_reader(source: str | Spooled, *, verify: bool = False, stopped: Stopped = lambda: False) -> Reader:
    """Opens a file, a named pipe once it has a writer, or standard input for "-". Raises InputError, and
    PlatformError where this process may open no more files.

    If `stopped` becomes true while waiting for a pipe's writer, the reader is empty.
    """
    path, name = (source.path, source.name) if isinstance(source, Spooled) else (source, source)
    if path == STDIN:
        return Reader(0, "standard input", verify=verify, stopped=stopped)
    try:
        is_pipe = isinstance(source, str) and stat.S_ISFIFO(Path(path).stat().st_mode)
        fd = _open_pipe(path, stopped) if is_pipe else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if lack := shortage(error, name):
            raise lack from error
        raise InputError(f"{name} cannot be read: {error.strerror}", "Check path and rights.") from error
    try:
        return Reader(fd, name, verify=verify, stopped=stopped)
    except BaseException:
        os.close(fd)
        raise


@contextmanager
def open_content(
    source: str | Spooled, *, verify: bool = False, stopped: Stopped = lambda: False
) -> Iterator[Reader]:
    """A reader as of `open_reader`, which also decompresses a stream. Raises InputError."""
    with ExitStack() as stack:
        reader = stack.enter_context(open_reader(source, verify=verify, stopped=stopped))
        if reader.compressed and not reader.regular:
            reader = stack.enter_context(reader.spooled())
        yield reader


def blocks_of(source: str | Spooled) -> Iterator[Block]:
    """The lines of a file or stream as an import of all of it sends them. Raises InputError."""
    with open_content(source) as reader:
        splitter, comments = LineSplitter(text=reader.head().text), Comments()
        while data := reader.read():
            yield from comments.without(splitter.feed(data), data)
        yield from comments.without(splitter.finish(), b"")


def _open_pipe(path: str, stopped: Stopped) -> int:
    """Opens a pipe in a thread, because opening blocks until the pipe has a writer and ignores signals."""
    opened: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()

    def wait() -> None:
        try:
            opened.put(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            opened.put(error)

    threading.Thread(target=wait, daemon=True).start()
    while not stopped():
        try:
            opened_pipe = opened.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            continue
        if isinstance(opened_pipe, OSError):
            raise opened_pipe
        return opened_pipe
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def expand(patterns: Sequence[str]) -> list[str]:
    """The files of paths, globs and "-", each once. Raises InputError for the first that is not readable."""
    paths: dict[object, str] = {}
    for pattern in patterns:
        matches = [pattern]
        if pattern != STDIN and _known_kind(pattern) == _MISSING and glob.has_magic(pattern):
            matches = matching(pattern)
            if not matches:
                raise InputError(f"no file matches {pattern}", "Check the pattern.")
        for path in matches:
            check(path)
            paths.setdefault(_identity(path), path)
    return list(paths.values())


def _identity(path: str) -> object:
    """The same for all names of a regular file: links, and paths through a link to a directory above."""
    with suppress(OSError):
        status = Path(path).stat()
        if stat.S_ISREG(status.st_mode):
            return status.st_dev, status.st_ino
    return path


def matching(pattern: str) -> list[str]:
    """Files that match a path or glob now, by name; empty if there are none."""
    if _kind(pattern) != _MISSING or not glob.has_magic(pattern):
        return [pattern] if _kind(pattern) == stat.S_IFREG else []
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(path for path in names if _kind(path) == stat.S_IFREG)


def followable(pattern: str) -> bool:
    """Whether the file exists and can be followed. Raises InputError for a path that can never be followed."""
    kind = _known_kind(pattern)
    if kind == _MISSING:
        return bool(matching(pattern))
    check(pattern)
    if kind != stat.S_IFREG:
        raise InputError(f"{pattern} is a pipe or a device and cannot be followed", "Leave out --follow.")
    return True


def check(path: str) -> None:
    """Raises InputError unless `path` is a readable file, pipe or device, or "-"."""
    if path == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("standard input is closed", "Name a file.")
        return
    kind = _known_kind(path)
    if kind == _MISSING:
        raise InputError(f"{path} does not exist", "Name a file, a quoted glob, or - for standard input.")
    if kind == stat.S_IFDIR:
        raise InputError(f"{path} is a directory", f"Name its files, for example '{Path(path) / '*.log'}'.")
    if kind != stat.S_IFREG and _is_own_output(path):
        raise InputError(
            f"{path} is this program's own output, as logs of containers are",
            "Pipe them in: docker logs NAME | tidemark import -",
        )
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} is not readable for this user", "Change its rights or the user.")


def _is_own_output(path: str) -> bool:
    """Whether reading the pipe or terminal would wait for what this process writes."""
    there = Path(path).stat()
    for descriptor in (1, 2):
        with suppress(OSError):
            own = os.fstat(descriptor)
            if os.path.samestat(there, own) and (stat.S_ISFIFO(own.st_mode) or os.isatty(descriptor)):
                return True
    return False


def is_stream(path: str) -> bool:
    """Whether the lines can be read only once: standard input or a pipe."""
    return path == STDIN or not Path(path).is_file()


def states_of(paths: Sequence[str]) -> dict[str, list[int]]:
    """Size and time of the last change of the regular files among these that are there."""
    states = {}
    for path in paths:
        with suppress(OSError):  # a file may go between two looks at it
            if not is_stream(path):
                states[path] = list(state_of(Path(path).stat()))
    return states


def _known_kind(path: str) -> int:
    """The same as `_kind`. Raises InputError if it is unknown, as behind a directory that may not be entered."""
    try:
        return _kind(path, strict=True)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "Check path and rights.") from error


def _kind(path: str, *, strict: bool = False) -> int:
    """The kind of file at `path`, as of S_IFMT; with `strict`, raises OSError if it is unknown."""
    try:
        return stat.S_IFMT(Path(path).stat().st_mode)
    except OSError as error:
        if strict and not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise
        return _MISSING
