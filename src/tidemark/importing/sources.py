"""What an import reads: files, globs, gzip, standard input."""

from __future__ import annotations

import glob
import os
import select
import stat
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from tidemark.errors import InputError

STDIN = "-"
READ_BYTES = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"


class TruncatedError(InputError):
    """A gzip file ends in the middle; what could be read before was given out."""


class Reader:
    """Bytes of one file or stream, decompressed when it is gzip by its first bytes.

    `raw_position` counts bytes of the file itself, compressed or not.
    """

    def __init__(self, fd: int, name: str) -> None:
        self.name = name
        self.raw_position = 0
        self._fd = fd
        status = os.fstat(fd)
        self.regular = stat.S_ISREG(status.st_mode)
        self.key = (status.st_dev, status.st_ino)
        self._ahead = b""
        while len(self._ahead) < 2 and (more := self._system_read(2 - len(self._ahead))):
            self._ahead += more
        self.gzip = self._ahead == _GZIP_MAGIC
        self._inflate = zlib.decompressobj(31) if self.gzip else None

    @property
    def raw_size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, size: int = READ_BYTES) -> bytes:
        """Up to `size` bytes; empty at the end. Raises TruncatedError or InputError on broken gzip."""
        return self._inflated(size) if self._inflate is not None else self._raw(size)

    def ready(self, timeout: float) -> bool:
        """Whether `read` returns at once; waits up to `timeout` seconds. A regular file always is."""
        if self.regular or self._ahead:
            return True
        return bool(select.select([self._fd], [], [], timeout)[0])

    def skip(self, offset: int, tail: int) -> bytes | None:
        """Go to `offset` from the start; the `tail` bytes before it, or None when the end comes first."""
        if not self.gzip:
            if self.raw_size < offset:
                return None
            self._ahead = b""
            self.raw_position = os.lseek(self._fd, offset, os.SEEK_SET)
            start = max(0, offset - tail)
            return os.pread(self._fd, offset - start, start)
        last = b""
        while offset:
            data = self.read(min(READ_BYTES, offset))
            if not data:
                return None
            offset -= len(data)
            last = (last + data[-tail:])[-tail:]
        return last

    def begins_with(self, head: bytes) -> bool:
        """Whether a plain file still begins so; false once it was overwritten from the start."""
        return os.pread(self._fd, len(head), 0) == head

    def close(self) -> None:
        if self._fd != 0:
            os.close(self._fd)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raw(self, size: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._system_read(size)
        self.raw_position += len(data)
        return data

    def _system_read(self, size: int) -> bytes:
        try:
            return os.read(self._fd, size)
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror}", "Check the disk.") from error

    def _inflated(self, size: int) -> bytes:
        while True:
            assert self._inflate is not None
            if self._inflate.eof:
                # Another member may follow, or zeros that pad to a block.
                data = self._inflate.unused_data.lstrip(b"\0")
                while not data:
                    raw = self._raw(READ_BYTES)
                    if not raw:
                        return b""
                    data = raw.lstrip(b"\0")
                self._inflate = zlib.decompressobj(31)
            else:
                data = self._inflate.unconsumed_tail or self._raw(READ_BYTES // 4)
            try:
                out = self._inflate.decompress(data, size)
            except zlib.error as error:
                raise InputError(
                    f"{self.name} is corrupt: {error}", "Lines before the damage were imported."
                ) from error
            if out:
                return out
            if not data and not self._inflate.eof:
                raise TruncatedError(
                    f"{self.name} is truncated: its gzip data ends in the middle",
                    "Lines before the end were imported; import the complete file for the rest.",
                )


def open_reader(path: str) -> Reader:
    """Open a file, or standard input for "-". Raises InputError."""
    if path == STDIN:
        return Reader(0, "standard input")
    try:
        return Reader(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "Check path and rights.") from error


def expand(patterns: Sequence[str]) -> list[str]:
    """The files that paths, globs and "-" stand for. Raises InputError on the first that is not readable."""
    paths: list[str] = []
    for pattern in patterns:
        found = [pattern]
        if pattern != STDIN and not Path(pattern).exists() and glob.has_magic(pattern):
            found = matching(pattern)
            if not found:
                raise InputError(f"no file matches {pattern}", "Check the pattern.")
        for path in found:
            check(path)
        paths += found
    return paths


def matching(pattern: str) -> list[str]:
    """Files that a path or glob stands for now, by name; none when there are none."""
    if Path(pattern).exists() or not glob.has_magic(pattern):
        return [pattern] if Path(pattern).is_file() else []
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(path for path in found if Path(path).is_file())


def check(path: str) -> None:
    """Raise InputError unless `path` is a readable file or "-"."""
    if path == STDIN:
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("standard input is closed", "Name a file.")
    elif not Path(path).exists():
        raise InputError(f"{path} does not exist", "Name a file, a quoted glob, or - for standard input.")
    elif Path(path).is_dir():
        raise InputError(f"{path} is a directory", f"Name its files, for example '{Path(path) / '*.log'}'.")
    elif not os.access(path, os.R_OK):
        raise InputError(f"{path} is not readable for this user", "Change its rights or the user.")
