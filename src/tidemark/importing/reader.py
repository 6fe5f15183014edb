"""Reads the bytes of a file or a stream; of gzip only members that pass their checksum."""

from __future__ import annotations

import os
import select
import stat
import tempfile
import zlib
from collections.abc import Callable

from tidemark.errors import InputError

READ_BYTES = 1024 * 1024
WAIT_SECONDS = 0.25
_GZIP_MAGIC = b"\x1f\x8b"

Stopped = Callable[[], bool]


class BrokenError(InputError):
    """A gzip file cannot be read to its end."""


class TruncatedError(BrokenError):
    """A gzip file ends in the middle; the bytes before were returned."""

    def __init__(
        self, problem: str, remedy: str = "Import the complete file; the import continues from there."
    ) -> None:
        super().__init__(problem, remedy)


class DamagedError(BrokenError):
    """A member of a gzip file fails its checksum; a verifying reader has returned none of its bytes."""

    def __init__(
        self,
        problem: str,
        remedy: str = "Import a sound copy; the import continues from there. To import all readable lines, damaged"
        " ones too, pipe `gzip -dc FILE` into `tidemark import -`.",
    ) -> None:
        super().__init__(problem, remedy)


class Reader:
    """Bytes of one file or stream. A file that begins like gzip is decompressed.

    `raw_position` counts bytes of the file itself, compressed or not. With `verify`, a member of a gzip
    file is read only after its checksum was verified, because damage usually decodes to other bytes without an error.
    A member that ends in the middle has no checksum, and is read to its end.
    """

    def __init__(self, fd: int, name: str, *, verify: bool = False, stopped: Stopped = lambda: False) -> None:
        self.name = name
        self.raw_position = 0
        self._fd = fd
        self._stopped = stopped
        status = os.fstat(fd)
        self.regular = stat.S_ISREG(status.st_mode)
        self.key = (status.st_dev, status.st_ino)
        self._base = os.lseek(fd, 0, os.SEEK_CUR) if self.regular else 0
        self._ahead = b""
        while len(self._ahead) < 2 and self._wait() and (more := self._system_read(2 - len(self._ahead))):
            self._ahead += more
        self.gzip = self._ahead == _GZIP_MAGIC
        if self.regular and name.endswith(".gz") and not self.gzip:
            self._refuse()
        self._inflate = zlib.decompressobj(31) if self.gzip and self.regular else None
        self._member = self._base
        self._verify = verify
        self._sound = False

    @property
    def raw_size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def state(self) -> tuple[int, int]:
        """A value that changes when the file is written to."""
        return state_of(os.fstat(self._fd))

    @property
    def removed(self) -> bool:
        """Whether the file has no path any more."""
        return os.fstat(self._fd).st_nlink == 0

    def read(self, size: int = READ_BYTES) -> bytes:
        """Up to `size` bytes; empty at the end or when stopped. Raises BrokenError for broken gzip."""
        return self._raw(size) if self._inflate is None else self._inflated(size, verify=self._verify)

    def ready(self, timeout: float) -> bool:
        """Whether `read` returns at once; waits up to `timeout` seconds. A regular file always is."""
        if self.regular or self._ahead:
            return True
        return bool(select.select([self._fd], [], [], timeout)[0])

    def skip(self, offset: int, tail: int) -> bytes | None:
        """Moves to `offset` from the start. Returns the `tail` bytes before it, or None if the content is shorter."""
        if self._inflate is None:
            if self.raw_size < offset:
                return None
            self._ahead = b""
            self.raw_position = os.lseek(self._fd, offset, os.SEEK_SET)
            start = max(0, offset - tail)
            return self._at(start, offset - start)
        last = b""
        while offset:
            data = self._inflated(min(READ_BYTES, offset), verify=False)
            if not data:
                return None
            offset -= len(data)
            last = (last + data[-tail:])[-tail:]
        return last

    def begins_with(self, head: bytes) -> bool:
        """Whether a plain file still has this beginning; false once it was overwritten."""
        return self._at(0, len(head)) == head

    def spooled(self) -> Reader:
        """This gzip stream as an unnamed temporary file, because checksums follow the data.

        Raises InputError if the disk has no room.
        """
        try:
            with tempfile.TemporaryFile() as file:
                while self._wait() and (data := self._raw(READ_BYTES)):
                    file.write(data)
                file.seek(0)
                return Reader(os.dup(file.fileno()), self.name, verify=self._verify, stopped=self._stopped)
        except OSError as error:
            raise InputError(
                f"{self.name} is compressed and cannot be spooled to {tempfile.gettempdir()}: {error.strerror}",
                "Point TMPDIR to a directory with room for it, or import the file itself.",
            ) from error

    def close(self) -> None:
        if self._fd != 0:
            os.close(self._fd)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse(self) -> None:
        if _GZIP_MAGIC.startswith(self._ahead):
            raise self._truncated()
        raise DamagedError(
            f"{self.name} does not begin like gzip", "Import a sound copy; rename it if it is plain text."
        )

    def _wait(self) -> bool:
        """Waits until bytes can be read; false if stopped before."""
        while not self.ready(WAIT_SECONDS):
            if self._stopped():
                return False
        return True

    def _raw(self, size: int) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._system_read(size)
        self.raw_position += len(data)
        return data

    def _at(self, position: int, size: int) -> bytes:
        return self._system_call(lambda: os.pread(self._fd, size, position))

    def _system_read(self, size: int) -> bytes:
        return self._system_call(lambda: os.read(self._fd, size))

    def _system_call(self, call: Callable[[], bytes]) -> bytes:
        try:
            return call()
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror}", "Check the disk.") from error

    def _inflated(self, size: int, *, verify: bool) -> bytes:
        while True:
            assert self._inflate is not None
            if self._inflate.eof:
                # Another member may follow, or zeros as padding.
                data = self._inflate.unused_data.lstrip(b"\0")
                while not data:
                    raw = self._raw(READ_BYTES)
                    if not raw:
                        return b""
                    data = raw.lstrip(b"\0")
                self._inflate = zlib.decompressobj(31)
                self._member = self._base + self.raw_position - len(data)
                self._sound = False
                if verify and not self._verified():
                    return b""
            else:
                if verify and not self._verified():
                    return b""
                data = self._inflate.unconsumed_tail or self._raw(READ_BYTES // 4)
            out = self._decompress(self._inflate, data, size)
            if out:
                return out
            if not data and not self._inflate.eof:
                raise self._truncated()

    def _truncated(self) -> TruncatedError:
        return TruncatedError(f"{self.name} is truncated: its gzip data ends in the middle")

    def _verified(self) -> bool:
        """Reads the current member once to its checksum; false if stopped. Raises DamagedError."""
        if self._sound:
            return True
        inflate, position = zlib.decompressobj(31), self._member
        while not inflate.eof:
            if self._stopped():
                return False
            data = inflate.unconsumed_tail
            if not data:
                data = self._at(position, READ_BYTES // 4)
                position += len(data)
            out = self._decompress(inflate, data, READ_BYTES)
            if not data and not out:
                break  # It ends in the middle.
        self._sound = True
        return True

    def _decompress(self, inflate: zlib._Decompress, data: bytes, size: int) -> bytes:
        try:
            return inflate.decompress(data, size)
        except zlib.error as error:
            raise DamagedError(
                f"{self.name} is damaged: the gzip member that begins at byte {self._member:,} fails its check"
            ) from error


def state_of(status: os.stat_result) -> tuple[int, int]:
    """A value that changes when a file is written to: size and time of the last change."""
    return status.st_size, status.st_mtime_ns
