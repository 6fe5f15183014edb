"""Makes written files survive a power failure: the kernel writes them to the device seconds after a program has."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any


def sync(directories: Iterable[Path]) -> None:
    """Returns when all that was written to the file systems of these directories is on their devices. Missing
    directories are left out. Raises OSError if a device could not be written."""
    places: dict[int, Path] = {}
    for directory in directories:
        try:
            places.setdefault(directory.stat().st_dev, directory)
        except FileNotFoundError:
            continue
    for place in places.values():
        _sync_file_system(place)


def sync_file(path: Path) -> None:
    """Returns when the file's content, or a directory's entries, are on the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file_system(place: Path) -> None:
    syncfs = _syncfs()
    if syncfs is None:  # not Linux
        os.sync()
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(place))
    finally:
        os.close(descriptor)


@cache
def _syncfs() -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
