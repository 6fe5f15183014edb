"""Decompressors in bounded memory, with the interface of those in the standard library."""

from __future__ import annotations

import bz2
import lzma
import struct
import sys
import zlib
from typing import Protocol

# Of xz's and zstd's own presets only `zstd --long` and `--ultra` ask for more.
MEMORY_BYTES = 128 * 1024 * 1024

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_DESCRIPTOR_MARK = b"PK\x07\x08"
_MOST_DESCRIPTOR_BYTES = 24
_ENCRYPTED, _HAS_DESCRIPTOR = 1, 8
_STORED, _DEFLATED, _BZIP2, _ZSTD = 0, 8, 12, 93
_IN_EXTRA_FIELD = 0xFFFFFFFF


class DataError(Exception):
    """Compressed data are damaged."""


class UnsupportedError(Exception):
    """The data need an option of their format that is not read; the text completes "FILE …"."""


class Decoder(Protocol):
    """Decompresses one member, stream, frame or entry in bounded memory."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Inflater:
    """A gzip member, or with -15 as `window_bits` bare deflate data."""

    def __init__(self, window_bits: int = 31) -> None:
        self._inner = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def xz_decoder() -> Decoder:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_BYTES)


def zstd_decoder() -> Decoder:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    most: dict[int, int] = {zstd.DecompressionParameter.window_log_max: MEMORY_BYTES.bit_length() - 1}
    return zstd.ZstdDecompressor(options=most)


class ZipEntry:
    """An entry of a zip archive from its local header on. Directories and the notes of macOS have no content."""

    def __init__(self) -> None:
        self.eof = False
        self.unused_data = b""
        self._head = b""
        self._inner: Decoder | None = None
        self._silent = False
        self._checksum: int | None = None
        self._sum = 0

    @property
    def needs_input(self) -> bool:
        return self._inner is None or self._inner.eof or self._inner.needs_input

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner is None:
            self._head += data
            length = _header_length(self._head)
            if length is None:
                return b""
            self._inner = self._opened(self._head[:length])
            data = self._head[length:]
        out = b""
        if not self._inner.eof:
            out = self._inner.decompress(data, max_length)
            self._sum = zlib.crc32(out, self._sum)
            data = b""
        if self._inner.eof:
            self._finish(data)
        return b"" if self._silent else out

    def _opened(self, header: bytes) -> Decoder:
        _, _, flags, method, _, _, checksum, size, _, name_length, _ = _LOCAL_HEADER.unpack_from(header)
        name = header[_LOCAL_HEADER.size :][:name_length].decode("utf-8", "replace")
        self._silent = not is_content(name)
        self._checksum = None if flags & _HAS_DESCRIPTOR else checksum
        if flags & _ENCRYPTED:
            raise UnsupportedError("is encrypted")
        if method == _DEFLATED:
            return Inflater(-zlib.MAX_WBITS)
        if method == _BZIP2:
            return bz2.BZ2Decompressor()
        if method == _ZSTD:
            return zstd_decoder()
        if method != _STORED:
            raise UnsupportedError(f"is compressed by zip's method {method}, which is not read")
        if size == _IN_EXTRA_FIELD or self._checksum is None:
            raise UnsupportedError("is stored without its size in front, which is not read")
        return _Stored(size)

    def _finish(self, data: bytes) -> None:
        """Compares the checksum, which may follow the content."""
        assert self._inner is not None
        self.unused_data = (self.unused_data or self._inner.unused_data) + data
        if self._checksum is None:
            rest = self.unused_data
            if len(rest) < _MOST_DESCRIPTOR_BYTES:
                return  # The directory of the archive follows, so there is more.
            at = len(_DESCRIPTOR_MARK) if rest.startswith(_DESCRIPTOR_MARK) else 0
            self._checksum = int.from_bytes(rest[at : at + 4], "little")
            sizes = 8 if rest[at + 12 : at + 14] == b"PK" else 16
            self.unused_data = rest[at + 4 + sizes :]
        if self._checksum != self._sum:
            raise DataError("the checksum differs")
        self.eof = True


class _Stored:
    """Content that is not compressed, of a known size."""

    def __init__(self, size: int) -> None:
        self.unused_data = b""
        self._left = size
        self._waiting = b""

    @property
    def eof(self) -> bool:
        return self._left == 0

    @property
    def needs_input(self) -> bool:
        return not self._waiting

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._waiting + data
        out = data[: min(max_length, self._left)]
        self._left -= len(out)
        self._waiting = data[len(out) :]
        if self.eof:
            self.unused_data = self._waiting
        return out


def is_content(name: str) -> bool:
    """Whether a zip entry of this name is a file of the user."""
    return not name.endswith("/") and not name.startswith("__MACOSX/")


def _header_length(head: bytes) -> int | None:
    """The length of an entry's local header, None while it is not complete."""
    if len(head) < _LOCAL_HEADER.size:
        return None
    *_, name, extra = _LOCAL_HEADER.unpack_from(head)
    length: int = _LOCAL_HEADER.size + name + extra
    return length if len(head) >= length else None
