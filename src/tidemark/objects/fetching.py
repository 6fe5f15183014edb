"""Reads objects into temporary files, several at a time: a body is complete before its first line is used."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from tidemark.errors import InputError
from tidemark.objects.faults import AGAIN, PassingError, explained
from tidemark.objects.listing import Listed, version_of
from tidemark.objects.store import Location
from tidemark.objects.waiting import Stopped, arrived, settle

WORKERS = 8
# Objects that are read ahead, and their bytes on disk. A larger object waits until it is the only one.
MOST_AHEAD = 64
MOST_BYTES_AHEAD = 256 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
# Objects up to this size are kept in memory, where the system has files in memory.
_SMALL_BYTES = 256 * 1024
_TRIES = 4
_WAIT_SECONDS = 0.5
# An object is not read again after a minute and a second for each of these bytes.
_PATIENCE_SECONDS = 60.0
_SLOW_BYTES = 1024 * 1024

_Tasks = SimpleQueue["tuple[Listed, Future[Fetched]] | None"]


@dataclass(frozen=True)
class Fetched:
    """The version of an object that was read, and its content; or the reason why it was not."""

    version: Listed
    file: IO[bytes] | None = None
    error: InputError | None = None


def fetched(
    location: Location, objects: Iterable[Listed], stopped: Stopped = lambda: False
) -> Iterator[Fetched]:
    """Reads the objects, in their order; ends early when stopped. The caller closes the files.

    An object that was replaced since it was listed is read as it is now. A body that ends early is read again. If
    `objects` raises InputError, the objects before are returned first.
    """
    ahead: deque[tuple[int, Future[Fetched]]] = deque()
    waiting = 0
    fault: InputError | None = None
    tasks = _start(partial(_fetch, location, stopped=stopped))
    try:
        try:
            for each in objects:
                while ahead and (len(ahead) >= MOST_AHEAD or waiting + each.size > MOST_BYTES_AHEAD):
                    size, result = ahead[0]
                    if not arrived(result, stopped):
                        return
                    ahead.popleft()
                    waiting -= size
                    yield result.result()
                if stopped():
                    return
                result = Future[Fetched]()
                tasks.put((each, result))
                ahead.append((each.size, result))
                waiting += each.size
        except InputError as error:
            fault = error
        while ahead and arrived(ahead[0][1], stopped):
            yield ahead.popleft()[1].result()
        if fault:
            raise fault
    finally:
        for _, result in ahead:
            result.cancel()
            result.add_done_callback(_closed)
        for _ in range(WORKERS):
            tasks.put(None)


def _start(fetch: Callable[[Listed], Fetched]) -> _Tasks:
    """Starts threads that fetch the objects of the returned queue, until they get None. The end of the process does not
    wait for them, as it would for those of an executor."""
    tasks: _Tasks = SimpleQueue()

    def work() -> None:
        while (task := tasks.get()) is not None:
            wanted, result = task
            settle(result, partial(fetch, wanted))

    for number in range(WORKERS):
        Thread(target=work, name=f"fetch-{number}", daemon=True).start()
    return tasks


def _closed(result: Future[Fetched]) -> None:
    if not result.cancelled() and not result.exception() and (file := result.result().file):
        file.close()


def _fetch(location: Location, wanted: Listed, stopped: Stopped) -> Fetched:
    end = time.monotonic() + _PATIENCE_SECONDS + wanted.size / _SLOW_BYTES
    for attempt in range(1, _TRIES + 1):
        try:
            return _read(location, wanted, stopped)
        except PassingError as error:
            if attempt == _TRIES or time.monotonic() > end or stopped():
                return Fetched(wanted, error=error)
            time.sleep(_WAIT_SECONDS * attempt)
        except InputError as error:
            return Fetched(wanted, error=error)
    raise AssertionError("unreachable: the last attempt returns")


def _read(location: Location, wanted: Listed, stopped: Stopped) -> Fetched:
    """Reads an object once, all of one version. Raises InputError."""
    name = location.url_of(wanted.key)
    with explained(location, "read", wanted.key):
        result = location.store.get(wanted.key)
        version = version_of(location, result.meta)
    try:
        file = _temporary_file(version.size)
        try:
            size = 0
            chunks = _content(result, version.size)
            while not stopped():
                with explained(location, "read", wanted.key):
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                size += file.write(chunk)
            file.flush()
            if size != version.size:
                raise PassingError(
                    f"{name} cannot be read: {size:,} of its {version.size:,} bytes arrived",
                    AGAIN,
                )
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise InputError(
            f"{name} cannot be written to the directory of temporary files: {error.strerror}",
            "Point TMPDIR to a directory with room for it.",
        ) from error
    return Fetched(replace(version, key=wanted.key), file)


def _content(result: Any, size: int) -> Iterator[Any]:
    """The buffers of an object's content; a small one is one buffer, which takes fewer calls."""
    if size <= _SMALL_BYTES:
        yield result.bytes()
    else:
        yield from result.stream(min_chunk_size=_CHUNK_BYTES)


def _temporary_file(size: int) -> IO[bytes]:
    """An unnamed file with room for this many bytes."""
    if sys.platform == "linux" and size <= _SMALL_BYTES:
        return os.fdopen(os.memfd_create("tidemark"), "w+b", buffering=0)
    return tempfile.TemporaryFile(prefix="tidemark-")
