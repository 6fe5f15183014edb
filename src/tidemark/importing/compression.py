"""Compressed files by their first bytes, and the content of one: only members that pass their checksum are read."""

from __future__ import annotations

import bz2
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from tidemark.errors import InputError
from tidemark.importing.decoders import (
    MEMORY_BYTES,
    Decoder,
    Inflater,
    UnsupportedError,
    ZipEntry,
    is_content,
    xz_decoder,
    zstd_decoder,
)
from tidemark.importing.raw import READ_BYTES, RawFile, skipped

_RAW_BYTES = READ_BYTES // 4
# The content of a verified member up to this size is kept, so that it is decompressed once.
_KEPT_BYTES = 4 * READ_BYTES
_ZIP_DIRECTORY = b"PK\x01\x02"


class BrokenError(InputError):
    """A compressed file cannot be read to its end."""


class TruncatedError(BrokenError):
    """A compressed file ends in the middle; the bytes before were returned."""


class DamagedError(BrokenError):
    """A member of a compressed file fails its checksum; a verifying reader has returned none of its bytes."""


@dataclass(frozen=True)
class Compression:
    """A kind of compressed file, by the bytes at its beginning. A file is a sequence of members; `member` is the
    format's word for one. `check` raises InputError for a file that must not be imported at all."""

    name: str
    member: str
    ending: str
    magics: tuple[bytes, ...]
    decoder: Callable[[], Decoder] | None
    command: str
    directory: bytes = b""  # What follows the members, if it begins like this.
    check: Callable[[RawFile], None] = lambda file: None


def _one_file(file: RawFile) -> None:
    """Raises InputError for a zip archive of several files."""
    with os.fdopen(file.duplicate(), "rb") as opened:
        try:
            with zipfile.ZipFile(opened) as archive:
                names = [name for name in archive.namelist() if is_content(name)]
        except zipfile.BadZipFile:
            return  # Without its end; its first entry can be read.
    if len(names) > 1:
        raise InputError(
            f"{file.name} is a zip archive of {len(names):,} files, among them {names[0]} and {names[1]}",
            f"Extract them and import them, or pipe one: `unzip -p FILE {names[0]} | tidemark import -`.",
        )


_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # The first block, or the end of an empty stream.
COMPRESSIONS = (
    Compression("gzip", "gzip member", ".gz", (b"\x1f\x8b",), Inflater, "gzip -dc FILE"),
    Compression(
        "bzip2",
        "bzip2 stream",
        ".bz2",
        tuple(b"BZh%d" % level + block for level in range(1, 10) for block in _BZIP2_BLOCKS),
        bz2.BZ2Decompressor,
        "bzip2 -dc FILE",
    ),
    Compression("xz", "xz stream", ".xz", (b"\xfd7zXZ\0",), xz_decoder, "xz -dc FILE"),
    Compression(
        "zstd",
        "zstd frame",
        ".zst",
        (
            b"\x28\xb5\x2f\xfd",
            *(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16)),
        ),  # the others: skippable
        zstd_decoder,
        "zstd -dc --long=31 FILE",
    ),
    Compression(
        "zip", "zip entry", ".zip", (b"PK\x03\x04",), ZipEntry, "unzip -p FILE", _ZIP_DIRECTORY, _one_file
    ),
)
# It is read as text, see ParquetLines.
PARQUET = Compression("Parquet", "row group", ".parquet", (b"PAR1",), None, "")
_KINDS = (*COMPRESSIONS, PARQUET)
ENDINGS = tuple(each.ending for each in COMPRESSIONS)
_MAGIC_BYTES = max(len(magic) for each in _KINDS for magic in each.magics)


def compression_of(file: RawFile) -> Compression | None:
    """The compression of a file at its beginning, None for another one.

    Raises BrokenError for a regular file that is named like a compressed one and does not begin so.
    """
    head = file.peek(_MAGIC_BYTES, lambda head: not _may_be(head))
    for each in _KINDS:
        if head.startswith(each.magics):
            return each
    for each in _KINDS:
        if file.regular and file.name.endswith(each.ending):
            if _may_be(head):
                raise _truncated(file, each)
            raise DamagedError(
                f"{file.name} does not begin like {each.name}",
                "Import a sound copy; rename it if it is plain text.",
            )
    return None


def _may_be(head: bytes) -> bool:
    """Whether these bytes may be the beginning of a compressed file."""
    return any(magic.startswith(head[: len(magic)]) for each in _KINDS for magic in each.magics)


class Members:
    """The content of a compressed regular file. With `verify`, a member is read only after its checksum was verified,
    because damage usually decodes to other bytes without an error. A member that ends in the middle has no checksum,
    and is read to its end."""

    def __init__(self, file: RawFile, compression: Compression, *, verify: bool) -> None:
        self._file = file
        self._compression = compression
        self._verify = verify
        self._member = _Member(file, compression, 0)
        self._sound = False

    @property
    def position(self) -> int:
        """Bytes of the file that have been read."""
        return self._member.position

    def read(self, size: int, *, verify: bool = True) -> bytes:
        """Up to `size` bytes; empty at the end or when stopped. Raises BrokenError."""
        while True:
            if verify and self._verify and not self._sound and not self._verified():
                return b""
            data = self._member.read(size)
            if data:
                return data
            if not self._member.ended:
                raise _truncated(self._file, self._compression)
            following = self._following()
            if following is None:
                return b""
            self._member = _Member(self._file, self._compression, following)
            self._sound = False

    def skip(self, offset: int, tail: int) -> bytes | None:
        """Moves to `offset` of the content from its start, without verifying what is before. Returns the `tail` bytes
        before it, or None if the content is shorter. Raises BrokenError."""
        return skipped(lambda size: self.read(size, verify=False), offset, tail)

    def _following(self) -> int | None:
        """Where the next member begins, after zeros as padding; None at the end."""
        position, directory = self._member.end, self._compression.directory
        while data := self._file.at(position, _RAW_BYTES):
            padding = len(data) - len(data.lstrip(b"\0"))
            position += padding
            if padding == len(data):
                continue
            if directory and self._file.at(position, len(directory)) == directory:
                return None
            return position
        return None

    def _verified(self) -> bool:
        """Reads the current member once to its checksum; false if stopped. Raises DamagedError."""
        member = _Member(self._file, self._compression, self._member.start)
        content, size = list[bytes](), 0
        while not self._file.stopped():
            data = member.read(READ_BYTES)
            size += len(data)
            if size <= _KEPT_BYTES:
                content.append(data)
            else:
                content.clear()
            if not data:
                self._sound = True
                if content and member.ended and not self._member.begun:
                    member.kept, self._member = b"".join(content), member
                return True
        return False


class _Member:
    """One member, which begins at `start`; `ended`: all of it was read, to its `end`. `kept` is content that was read
    and comes again."""

    def __init__(self, file: RawFile, compression: Compression, start: int) -> None:
        self.start = start
        self.position = start
        self.kept = b""
        self._file = file
        self._compression = compression
        assert compression.decoder is not None
        self._decoder = compression.decoder()

    @property
    def ended(self) -> bool:
        return self._decoder.eof

    @property
    def begun(self) -> bool:
        return self.position > self.start

    @property
    def end(self) -> int:
        return self.position - len(self._decoder.unused_data)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end of the member or of the file. Raises BrokenError."""
        if self.kept:
            data, self.kept = self.kept[:size], self.kept[size:]
            return data
        decoder = self._decoder
        while not decoder.eof:
            wanted = decoder.needs_input
            data = self._file.at(self.position, _RAW_BYTES) if wanted else b""
            self.position += len(data)
            out = self._decompress(data, size)
            if out or (wanted and not data):
                return out
        return b""

    def _decompress(self, data: bytes, size: int) -> bytes:
        name, command = self._file.name, self._compression.command
        pipe = f"pipe `{command}` into `tidemark import -`."
        try:
            return self._decoder.decompress(data, size)
        except UnsupportedError as error:
            raise DamagedError(f"{name} {error}", f"Extract it, or {pipe}") from error
        except Exception as error:  # Each format has exceptions of its own.
            if isinstance(error, MemoryError) or "memory" in str(error).lower():
                raise DamagedError(
                    f"{name} needs more than {MEMORY_BYTES // 2**20} MiB of memory to be decompressed",
                    f"To import it anyway, {pipe}",
                ) from error
            raise DamagedError(
                f"{name} is damaged: the {self._compression.member} that begins at byte {self.start:,} fails its"
                " check",
                "Import a sound copy; the import continues from there. To import all readable lines, damaged ones"
                f" too, {pipe}",
            ) from error


def _truncated(file: RawFile, compression: Compression) -> TruncatedError:
    return TruncatedError(
        f"{file.name} is truncated: its {compression.name} data ends in the middle",
        "Import the complete file; the import continues from there.",
    )
