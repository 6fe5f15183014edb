"""Searches every file of a home for values: tables and their logs, also on object storage, the embedded broker's
records, checkpoints, logs and caches. Parquet, record batches and gzip are decoded first. access.db is left out: it is
about those who log in."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidemark.errors import TableError
from tidemark.store.lakehouse import Lakehouse

# Files that delta-rs has rewritten have views.
_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)
# Whether bytes have one of the values.
Holds = Callable[[bytes], bool]

_LEFT_OUT = ("access.db", "access.db-wal", "access.db-shm", "access.db-journal")
_BLOCK_BYTES = 8 << 20
# Longer than any value that is searched for.
_OVERLAP_BYTES = 4096
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")  # of a record batch of version 2
_LENGTH_AT = 12  # bytes in front of what the length counts
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_XERIAL = b"\x82SNAPPY\x00"


def files_with(home: Path, holds: Holds, lakehouse: Lakehouse | None = None) -> list[str]:
    """The files, relative to the home, that contain a value, and the URLs of those of a `lakehouse` elsewhere.
    Raises TableError for a file that cannot be read, and for tables whose files this process cannot reach."""
    local = fs.LocalFileSystem()
    places = [
        str(path.relative_to(home))
        for path in sorted(home.rglob("*"))
        if not path.is_symlink()
        and path.is_file()
        and path.name not in _LEFT_OUT
        and _contains(local, str(path), holds)
    ]
    if lakehouse and not Path(lakehouse.root).is_relative_to(home):
        files = lakehouse.files
        places += [
            f"{lakehouse.root}/{name}"
            for name in sorted(files.sizes(files.base))
            if _contains(files.system, f"{files.base}/{name}", holds)
        ]
    return places


def _contains(system: fs.FileSystem, path: str, holds: Holds) -> bool:
    try:
        return any(map(holds, contents(system, path)))
    except FileNotFoundError:  # a running pipeline has replaced it
        return False
    except (OSError, pa.ArrowException, zlib.error, struct.error, ValueError) as error:
        raise TableError(f"{path} cannot be searched: {error}", "Search it by hand.") from error


def holding_text(values: Sequence[str]) -> Holds:
    """Whether bytes contain one of these texts, also as JSON writes it."""
    wanted = [value.encode() for value in values]
    return lambda data: any(each in data for each in wanted)


def contents(system: fs.FileSystem, path: str) -> Iterator[bytes]:
    """The content of a file in overlapping parts: its bytes, and the decoded ones."""
    with system.open_input_file(path) as file:
        yield from _raw(file)
        file.seek(0)
        name = Path(path)
        if name.suffix == ".parquet":
            yield from _parquet(file)
        elif name.suffix == ".log" and name.stem.isdigit():
            yield from _records(file)
        elif name.suffix == ".gz":
            with gzip.open(file) as unpacked:
                while part := unpacked.read(_BLOCK_BYTES):
                    yield part


def _raw(file: pa.NativeFile) -> Iterator[bytes]:
    last = b""
    while part := file.read(_BLOCK_BYTES):
        yield last + part
        last = part[-_OVERLAP_BYTES:]


def _parquet(file: pa.NativeFile) -> Iterator[bytes]:
    for batch in pq.ParquetFile(file).iter_batches(batch_size=10_000):
        for column in batch.columns:
            yield from _texts(column)


def _texts(column: pa.Array) -> Iterator[bytes]:
    """The texts of a column, of its lists and of its structs, one in a line."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield from _texts(column.dictionary)
    elif pa.types.is_struct(kind):
        for part in column.flatten():
            yield from _texts(part)
    elif pa.types.is_map(kind):
        yield from _texts(column.keys)
        yield from _texts(column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _texts(column.flatten())
    elif any(is_text(kind) for is_text in _TEXTS):
        yield b"\n".join(column.cast(pa.large_binary()).drop_null().to_pylist())


def _records(file: pa.NativeFile) -> Iterator[bytes]:
    """The records of a segment of Kafka's, decompressed; a broker may be appending to it."""
    while len(header := file.read(_BATCH_HEADER.size)) == _BATCH_HEADER.size:
        _, length, _, magic, _, attributes, *_ = _BATCH_HEADER.unpack(header)
        size = _LENGTH_AT + length - _BATCH_HEADER.size
        if magic != 2 or size < 0:
            return
        payload = file.read(size)
        codec = _CODECS.get(attributes & 7)
        if len(payload) == size and codec:
            yield _decompressed(payload, codec)


def _decompressed(payload: bytes, codec: str) -> bytes:
    if codec == "snappy":
        return b"".join(_snappy(payload))
    with pa.CompressedInputStream(io.BytesIO(payload), codec) as stream:
        return bytes(stream.read())


def _snappy(payload: bytes) -> Iterator[bytes]:
    """Java's framing has blocks with their lengths after a header; others write one block."""
    if not payload.startswith(_XERIAL):
        yield _snappy_block(payload)
        return
    place = 16
    while place < len(payload):
        (length,) = struct.unpack_from(">i", payload, place)
        yield _snappy_block(payload[place + 4 : place + 4 + length])
        place += 4 + length


def _snappy_block(block: bytes) -> bytes:
    size, shift = 0, 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return bytes(pa.decompress(block, size, "snappy", asbytes=True))
