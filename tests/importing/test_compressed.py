"""Compressed files: each kind by its first bytes, sound, truncated, damaged, or made to fill the memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import InputError
from tidemark.importing.compression import DamagedError, TruncatedError
from tidemark.importing.importer import Options, import_files
from tidemark.importing.sources import blocks_of, open_content, open_reader

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Start = Callable[..., "subprocess.Popen[bytes]"]
Pack = Callable[[bytes], bytes]


def zstd_with_checksum(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def zipped(data: bytes, method: int = zipfile.ZIP_DEFLATED, *others: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("logs/access.log", data)
        for name in others:
            archive.writestr(name, b"of another file\n")
    return file.getvalue()


def zipped_as_a_stream(data: bytes) -> bytes:
    """An archive with the checksum behind the entry, as `zip` writes into a pipe."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    with (
        zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("access.log", "w") as entry,
    ):
        entry.write(data)
    return pipe.data


# Which may follow each other in one file, and which may not.
MEMBERS: dict[str, Pack] = {
    "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd_with_checksum
}  # fmt: skip
ZIPS: dict[str, Pack] = {
    "deflate.zip": zipped,
    "stored.zip": lambda data: zipped(data, zipfile.ZIP_STORED),
    "bzip2.zip": lambda data: zipped(data, zipfile.ZIP_BZIP2),
    "stream.zip": zipped_as_a_stream,
    "macos.zip": lambda data: zipped(data, zipfile.ZIP_DEFLATED, "logs/", "__MACOSX/logs/._access.log"),
}
KINDS = MEMBERS | ZIPS


def content_of(path: Path, size: int = 1000) -> bytes:
    with open_reader(str(path), verify=True) as reader:
        return b"".join(iter(lambda: reader.read(size), b""))


def damaged(packed: bytes, at: int) -> bytes:
    return packed[:at] + bytes([packed[at] ^ 4]) + packed[at + 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_the_content_of_each_kind_under_any_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "access.log"
    for data in (b"", b"one\n", os.urandom(300_000), b"a line\n" * 100_000):
        path.write_bytes(KINDS[kind](data))
        assert content_of(path, 70_000) == data
        with open_reader(str(path)) as reader:
            assert reader.skip(len(data), 5) == data[-5:] and reader.read() == b""
            assert reader.compressed


@pytest.mark.parametrize("kind", MEMBERS)
def test_several_members_and_padding(tmp_path: Path, kind: str) -> None:
    parts = [b"one\n" * 1000, b"", os.urandom(600_000), b"last\n"]
    path = tmp_path / "access.log"
    path.write_bytes(b"".join(MEMBERS[kind](part) for part in parts) + bytes(512))
    assert content_of(path) == b"".join(parts)


def test_frames_of_zstd_that_have_no_content(tmp_path: Path) -> None:
    skipped = b"\x53\x2a\x4d\x18\x05\0\0\0notes"
    path = tmp_path / "access.log"
    path.write_bytes(skipped + zstd.compress(b"one\n") + skipped + zstd.compress(b"two\n"))
    assert content_of(path) == b"one\ntwo\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"a line\n" * 3000, os.urandom(40_000)], ids=["lines", "noise"])
def test_a_truncated_file_has_no_byte_that_the_whole_one_has_not(
    tmp_path: Path, kind: str, content: bytes
) -> None:
    path, packed = tmp_path / "access.log", KINDS[kind](content)
    for end in (12, len(packed) // 2, *range(max(12, len(packed) - 30), len(packed))):
        path.write_bytes(packed[:end])
        read = b""
        with open_reader(str(path), verify=True) as reader:
            try:
                while more := reader.read(777):
                    read += more
            except TruncatedError:
                assert content.startswith(read)
            else:
                # Only the directory of a zip archive may be missing.
                assert read == content and kind.endswith("zip")


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_adds_its_readable_lines_and_the_whole_one_the_rest(
    options: Options, lines: Lines, tmp_path: Path, kind: str
) -> None:
    # bzip2's blocks are of 900 kB, and only whole ones can be read.
    number = 30_000 if "bz" in kind else 6_000
    content = [os.urandom(40).hex().encode() for _ in range(number)]
    packed = KINDS[kind](b"".join(line + b"\n" for line in content))
    path = tmp_path / f"access.log.{kind}"
    path.write_bytes(packed[: len(packed) * 2 // 3])

    with pytest.raises(
        InputError, match=rf"access\.log\.{kind} is truncated: its \w+ data ends in the middle"
    ):
        import_files([str(path)], options)
    kept = lines()
    assert number / 4 < len(kept) < number * 5 / 6 and set(kept) < set(content)

    path.write_bytes(packed)
    assert import_files([str(path)], options).added == len(content) - len(kept)
    assert lines() == sorted(content)


@pytest.mark.parametrize("kind", KINDS)
def test_no_line_of_a_damaged_member_is_imported_and_a_sound_copy_adds_them(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path, kind: str
) -> None:
    content = numbered(4_000)
    half = b"".join(line + b"\n" for line in content[:2_000])
    rest = b"".join(line + b"\n" for line in content[2_000:])
    first = MEMBERS[kind](half) if kind in MEMBERS else b""
    second = KINDS[kind](rest if first else half + rest)
    path = tmp_path / "access.log"
    path.write_bytes(first + damaged(second, len(second) // 2))
    kept = 2_000 if first else 0
    with pytest.raises(InputError, match=rf"access\.log is damaged: .* {kept:,} lines of it went in"):
        import_files([str(path)], options)
    assert lines() == sorted(content[:kept])

    path.write_bytes(first + second)
    assert import_files([str(path)], options).added == len(content) - kept
    assert lines() == sorted(content)


def test_a_file_that_was_compressed_in_every_way_is_imported_once(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    content = numbered(1_000)
    text = b"".join(line + b"\n" for line in content)
    paths = [tmp_path / f"access.log.{kind}" for kind in KINDS]
    for path, pack in zip(paths, KINDS.values(), strict=True):
        path.write_bytes(pack(text))
    (tmp_path / "access.log").write_bytes(text)
    report = import_files([str(tmp_path / "access.log*")], options)
    assert (report.files, report.added, report.known) == (len(KINDS) + 1, 1_000, 1_000 * len(KINDS))
    (tmp_path / "access.log").write_bytes(text + b"one more\n")
    assert import_files([str(tmp_path / "access.log")], options).added == 1
    assert lines() == sorted([*content, b"one more"])


def test_standard_input(tidemark: Start, lines: Lines, numbered: Numbered) -> None:
    content = numbered(1000)
    started = tidemark("-", stdin=subprocess.PIPE)
    out, err = started.communicate(gzip.compress(b"".join(line + b"\n" for line in content)), timeout=60)
    assert started.returncode == 0, err
    assert b"1 file: 1,000 lines added" in out
    assert lines() == sorted(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_of_each_kind(tmp_path: Path, kind: str) -> None:
    """It cannot be read from another place, no more than standard input."""
    path, content = tmp_path / "pipe", b"a line\n" * 1_000
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(KINDS[kind](content),))
    writer.start()
    with open_content(str(path), verify=True) as reader:
        assert b"".join(iter(lambda: reader.read(1000), b"")) == content
    writer.join()


def test_archives_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    path.write_bytes(zipped(b"one\n", zipfile.ZIP_DEFLATED, "b.log", "c.log"))
    with pytest.raises(InputError, match=r"3 files, among them logs/access\.log and b\.log.*unzip -p"):
        list(blocks_of(str(path)))
    path.write_bytes(zipped(b"one\n" * 100, zipfile.ZIP_LZMA))
    with pytest.raises(InputError, match="zip's method 14"):
        list(blocks_of(str(path)))
    packed = zipped(b"one\n" * 100)
    path.write_bytes(packed[:6] + b"\1" + packed[7:])  # as if it had a password
    with pytest.raises(InputError, match="is encrypted"):
        list(blocks_of(str(path)))


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst", "zip"])
def test_what_is_named_so_and_does_not_begin_so_is_no_text(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"access.log.{kind}"
    path.write_bytes(b"a line of text\n")
    with pytest.raises(DamagedError, match="does not begin like"):
        list(blocks_of(str(path)))
    path.write_bytes(KINDS.get(kind, zipped)(b"")[:1])
    with pytest.raises(TruncatedError, match="ends in the middle"):
        list(blocks_of(str(path)))


@pytest.mark.parametrize("kind", [*MEMBERS, "deflate.zip"])
def test_a_small_file_that_becomes_a_large_one_takes_bounded_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(KINDS[kind](b"one\n" + bytes(75_000_000) + b"two\n"))
    program = (
        "import resource, sys\n"
        "from tidemark.importing.sources import blocks_of\n"
        "status = open('/proc/self/status').read()\n"
        "most = int(status.split('VmData:')[1].split()[0]) * 1024 + 50_000_000\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (most, most))\n"
        "print([line for block in blocks_of(sys.argv[1]) for line in block.lines])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "[b'one', b'two']\n", done.stderr[-500:]


@pytest.mark.parametrize("kind", ["xz", "zst"])
def test_a_window_beyond_the_limit_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "access.log"
    if kind == "xz":
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
        path.write_bytes(lzma.compress(b"one\n", filters=filters))
    else:
        compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 29})
        path.write_bytes(compressor.compress(b"one\n") + compressor.flush())
    with pytest.raises(InputError, match="more than 128 MiB of memory"):
        list(blocks_of(str(path)))
