"""Reads objects into temporary files, several at a time: a body is complete before its first line is used."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import IO

from tidemark.errors import InputError
from tidemark.objects.faults import PassingError, explained
from tidemark.objects.listing import Listed, version_of
from tidemark.objects.store import Location

WORKERS = 8
# Objects that are read ahead, and their bytes on disk. A larger object waits until it is the only one.
MOST_AHEAD = 64
MOST_BYTES_AHEAD = 256 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_TRIES = 4
_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Fetched:
    """The version of an object that was read, and its content; or the reason why it was not."""

    version: Listed
    file: IO[bytes] | None = None
    error: InputError | None = None


def fetched(
    location: Location, objects: Iterable[Listed], stopped: Callable[[], bool] = lambda: False
) -> Iterator[Fetched]:
    """Reads the objects, in their order; ends early when stopped. The caller closes the files.

    An object that was replaced since it was listed is read as it is now. A body that ends early is read again.
    """
    ahead: deque[tuple[int, Future[Fetched]]] = deque()
    waiting = 0
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="fetch")
    try:
        for each in objects:
            while ahead and (len(ahead) >= MOST_AHEAD or waiting + each.size > MOST_BYTES_AHEAD):
                size, result = ahead.popleft()
                waiting -= size
                yield result.result()
            if stopped():
                return
            ahead.append((each.size, pool.submit(_fetch, location, each, stopped)))
            waiting += each.size
            while ahead and ahead[0][1].done():
                size, result = ahead.popleft()
                waiting -= size
                yield result.result()
        while ahead and not stopped():
            yield ahead.popleft()[1].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for _, result in ahead:
            result.add_done_callback(_closed)


def _closed(result: Future[Fetched]) -> None:
    if not result.cancelled() and (file := result.result().file):
        file.close()


def _fetch(location: Location, wanted: Listed, stopped: Callable[[], bool]) -> Fetched:
    for attempt in range(1, _TRIES + 1):
        try:
            return _read(location, wanted, stopped)
        except PassingError as error:
            if attempt == _TRIES or stopped():
                return Fetched(wanted, error=error)
            time.sleep(_WAIT_SECONDS * attempt)
        except InputError as error:
            return Fetched(wanted, error=error)
    raise AssertionError("unreachable: the last attempt returns")


def _read(location: Location, wanted: Listed, stopped: Callable[[], bool]) -> Fetched:
    """Reads an object once, all of one version. Raises InputError."""
    name = location.url_of(wanted.key)
    with explained(location, "read", wanted.key):
        result = location.store.get(wanted.key)
        version = version_of(result.meta)
    try:
        file = tempfile.TemporaryFile(prefix="tidemark-")  # noqa: SIM115 - the caller closes it
        try:
            size = 0
            chunks = iter(result.stream(min_chunk_size=_CHUNK_BYTES))
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
                    "Start again later; the import continues from there.",
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
