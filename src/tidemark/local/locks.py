"""File locks. The kernel releases them when a process ends for any reason."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Holds the lock file `path`, alone or `shared` with others that hold it so. Raises OSError.

    Yields whether the lock is held: always, unless `wait` is false and another process holds it.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("a") as file:
        try:
            fcntl.flock(file, how if wait else how | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
