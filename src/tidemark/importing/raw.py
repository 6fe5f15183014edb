"""The bytes of a file or a stream as the operating system gives them."""

from __future__ import annotations

import copy
import os
import select
import stat
from collections.abc import Callable

from tidemark.errors import InputError

READ_BYTES = 1024 * 1024
WAIT_SECONDS = 0.25

Stopped = Callable[[], bool]


class RawFile:
    """A regular file from its present position on, which is position 0 here, or a stream.

    `position` is the number of bytes that `read` has returned. Every method that reads raises InputError.
    """

    def __init__(self, fd: int, name: str, stopped: Stopped) -> None:
        self.name = name
        self.position = 0
        self.stopped = stopped
        self._fd = fd
        status = os.fstat(fd)
        self.regular = stat.S_ISREG(status.st_mode)
        self.key = (status.st_dev, status.st_ino)
        self._base = os.lseek(fd, 0, os.SEEK_CUR) if self.regular else 0
        self._ahead = b""

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self._fd)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        if self.regular:
            data = self.at(self.position, size)
        elif self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._read(size)
        self.position += len(data)
        return data

    def at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes of a regular file at a position."""
        return self._call(lambda: os.pread(self._fd, size, self._base + position))

    def peek(self, size: int, enough: Callable[[bytes], bool] = lambda _: False) -> bytes:
        """The next bytes, up to `size`, which `read` returns again. Waits for bytes of a stream until it has ended, or
        until the bytes are `enough`, or until it is stopped."""
        if self.regular:
            return self.at(self.position, size)
        while len(self._ahead) < size and not enough(self._ahead) and self.wait():
            data = self._read(size - len(self._ahead))
            if not data:
                break
            self._ahead += data
        return self._ahead[:size]

    def skip(self, offset: int, tail: int) -> bytes | None:
        """Moves to `offset`. Returns the `tail` bytes before it, or None if the file is shorter."""
        if self.status.st_size - self._base < offset:
            return None
        self.position = offset
        start = max(0, offset - tail)
        return self.at(start, offset - start)

    def back(self, size: int) -> None:
        """Moves back in a regular file."""
        self.position -= size

    def again(self) -> RawFile:
        """The same regular file from its position 0 on."""
        other = copy.copy(self)
        other.position = 0
        return other

    def ready(self, timeout: float) -> bool:
        """Whether `read` returns at once; waits up to `timeout` seconds. A regular file always is."""
        return self.regular or bool(self._ahead) or self._arrived(timeout)

    def wait(self) -> bool:
        """Waits until a stream has more bytes, or its end; false if stopped before."""
        while not self.regular and not self._arrived(WAIT_SECONDS):
            if self.stopped():
                return False
        return True

    def duplicate(self) -> int:
        """Another descriptor of the file."""
        return os.dup(self._fd)

    def close(self) -> None:
        """Closes the file; once more changes nothing, as its number may be another file's by then."""
        if self._fd > 0:
            os.close(self._fd)
            self._fd = -1

    def _arrived(self, timeout: float) -> bool:
        return bool(select.select([self._fd], [], [], timeout)[0])

    def _read(self, size: int) -> bytes:
        return self._call(lambda: os.read(self._fd, size))

    def _call(self, call: Callable[[], bytes]) -> bytes:
        try:
            return call()
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror}", "Check the disk.") from error


def skipped(read: Callable[[int], bytes], offset: int, tail: int) -> bytes | None:
    """Reads up to `offset`. Returns the `tail` bytes before it, or None if there are fewer bytes."""
    last = b""
    while offset:
        data = read(min(READ_BYTES, offset))
        if not data:
            return None
        offset -= len(data)
        last = (last + data[-tail:])[-tail:]
    return last


def state_of(status: os.stat_result) -> tuple[int, int]:
    """A value that changes when a file is written to: size and time of the last change."""
    return status.st_size, status.st_mtime_ns
