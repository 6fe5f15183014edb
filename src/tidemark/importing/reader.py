"""Reads the content of a file or a stream, decompressed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import Protocol

from tidemark.errors import InputError
from tidemark.importing.compression import PARQUET, BrokenError, Members, compression_of
from tidemark.importing.raw import READ_BYTES, RawFile, Stopped
from tidemark.importing.text import HEAD_BYTES, Head


class _Content(Protocol):
    @property
    def position(self) -> int: ...

    def read(self, size: int) -> bytes: ...

    def skip(self, offset: int, tail: int) -> bytes | None: ...


class Reader:
    """The content of one file or stream, `raw`: decompressed if a regular file begins like a compressed one.

    Raises InputError for what is named like a compressed file and is none, and for a zip archive of several files.
    """

    def __init__(self, fd: int, name: str, *, verify: bool = False, stopped: Stopped = lambda: False) -> None:
        self.name = name
        self.raw = RawFile(fd, name, stopped)
        self.regular = self.raw.regular
        self._compression = compression_of(self.raw)
        if self._compression and self.regular:
            self._compression.check(self.raw)
        self._verify = verify
        self._content: _Content = self._members(verify=verify) or self.raw

    @property
    def compressed(self) -> bool:
        return self._compression is not None

    @property
    def raw_position(self) -> int:
        """Bytes of the file itself, compressed or not, that have been read."""
        return self._content.position

    def read(self, size: int = READ_BYTES) -> bytes:
        """Up to `size` bytes; empty at the end or when stopped. Raises BrokenError for a broken compressed file."""
        return self._content.read(size)

    def head(self) -> Head:
        """The beginning of the content, which `read` returns as well. Of a broken file, the readable part; of a
        stream, its first line, for which it waits. Raises InputError for a content that is no text."""
        if self.regular:
            head = _head_of(self._members(verify=False) or self.raw.again())
        else:
            data = self.raw.peek(HEAD_BYTES, lambda data: b"\n" in data)
            head = Head(len(data) - len(data.lstrip(b"\0")), data.lstrip(b"\0"))
        if head.binary:
            raise InputError(
                f"{self.name} is {head.binary}, not a log", "Import text, or text in a compressed file."
            )
        return head

    def skip(self, offset: int, tail: int) -> bytes | None:
        """Moves to `offset` from the start. Returns the `tail` bytes before it, or None if the content is shorter."""
        return self._content.skip(offset, tail)

    def begins_with(self, head: bytes, at: int) -> bool:
        """Whether a plain file still has these bytes at a position; false once it was overwritten."""
        return self.raw.at(at, len(head)) == head

    def spooled(self) -> Reader:
        """This compressed stream as an unnamed temporary file, because checksums follow the data.

        Raises InputError if the disk has no room.
        """
        try:
            with tempfile.TemporaryFile() as file:
                while self.raw.wait() and (data := self.raw.read(READ_BYTES)):
                    file.write(data)
                file.seek(0)
                return Reader(os.dup(file.fileno()), self.name, verify=self._verify, stopped=self.raw.stopped)
        except OSError as error:
            raise InputError(
                f"{self.name} is compressed and cannot be spooled to {tempfile.gettempdir()}: {error.strerror}",
                "Point TMPDIR to a directory with room for it, or import the file itself.",
            ) from error

    def close(self) -> None:
        self.raw.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _members(self, *, verify: bool) -> _Content | None:
        if self._compression is PARQUET and self.regular:
            from tidemark.importing.parquet import ParquetLines  # imports Arrow

            return ParquetLines(self.raw)
        if self._compression and self.regular:
            return Members(self.raw, self._compression, verify=verify)
        return None


def _head_of(content: _Content) -> Head:
    nuls, data = 0, b""
    with suppress(BrokenError):  # The reader of the rest gets the error.
        while len(data) < HEAD_BYTES and (more := content.read(HEAD_BYTES)):
            text = more if data else more.lstrip(b"\0")
            nuls += len(more) - len(text)
            data += text
    return Head(nuls, data[:HEAD_BYTES])
