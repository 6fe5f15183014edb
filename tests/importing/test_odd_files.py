"""Files in other encodings, with holes, of containers, and files that are no logs: each line once, whatever is done."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import InputError
from tidemark.importing.identity import Entry, recognise, resume
from tidemark.importing.importer import Options, import_files
from tidemark.importing.sources import blocks_of, open_reader

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Write = Callable[..., Path]
Start = Callable[..., "subprocess.Popen[bytes]"]


def cri(tag: str, content: str, stream: str = "stdout") -> str:
    return f"2026-11-21T10:00:00.123456789Z {stream} {tag} {content}"


def text(lines: list[bytes], end: str = "\n", encoding: str = "utf-8", mark: str = "") -> bytes:
    return (mark + "".join(line.decode() + end for line in lines)).encode(encoding)


FORMS: dict[str, dict[str, str]] = {
    "utf-16 with a mark": {"encoding": "utf-16-le", "mark": "\ufeff", "end": "\r\n"},
    "utf-16 without one": {"encoding": "utf-16-le"},
    "utf-16 of the other order": {"encoding": "utf-16-be", "mark": "\ufeff"},
    "utf-32": {"encoding": "utf-32-le", "mark": "\ufeff"},
    "a mark": {"mark": "\ufeff"},
    "carriage returns": {"end": "\r"},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_grows_is_renamed_and_compressed(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path, form: str
) -> None:
    content, path = numbered(3000), tmp_path / "access.log"
    whole = text(content, **FORMS[form])
    third = len(whole) // 3
    for size in (third, third + 1, 2 * third):  # in the middle of a line, and of a character
        path.write_bytes(whole[:size])
        import_files([str(path)], options)
        assert import_files([str(path)], options).added == 0
    renamed = tmp_path / "access.log.1"
    renamed.write_bytes(whole)
    packed = tmp_path / "access.log.2"
    packed.write_bytes(gzip.compress(whole))
    import_files([str(renamed), str(packed)], options)
    assert lines() == sorted(content)


@pytest.mark.parametrize("form", FORMS)
def test_standard_input(tidemark: Start, lines: Lines, numbered: Numbered, form: str) -> None:
    content = numbered(3000)
    started = tidemark("-", stdin=subprocess.PIPE)
    out, err = started.communicate(text(content, **FORMS[form]), timeout=60)
    assert started.returncode == 0, err
    assert b"1 file: 3,000 lines added" in out
    assert lines() == sorted(content)


def test_standard_input_that_is_no_log(tidemark: Start, lines: Lines) -> None:
    started = tidemark("-", stdin=subprocess.PIPE)
    _, err = started.communicate(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), timeout=60)
    assert started.returncode == 1 and err.count(b"\n") == 1
    assert b"standard input is a PNG image, not a log" in err
    assert lines() == []


def test_a_hole_at_the_beginning_is_left_out_and_counted(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    path, other = tmp_path / "access.log", tmp_path / "other.log"
    with path.open("wb") as file:  # as copytruncate leaves it to a writer that does not append
        file.seek(5_000_000)
        file.write(text(numbered(10)))
    first, again = import_files([str(path)], options), import_files([str(path)], options)
    assert (first.added, first.nuls, again.added, again.nuls) == (10, 5_000_000, 0, 0)
    # It is no shorter copy of the first one, though both begin with a hole.
    other.write_bytes(bytes(100_000) + text(numbered(5, start=10)))
    assert import_files([str(other)], options).added == 5
    with path.open("ab") as file:
        file.write(text(numbered(5, start=20)))
    assert import_files([str(path)], options).added == 5
    assert lines() == sorted(numbered(15) + numbered(5, start=20))


def test_a_comment_behind_a_hole_is_one(tmp_path: Path) -> None:
    path = tmp_path / "ex.log"
    path.write_bytes(b"1 2\n" + bytes(600) + b"#Fields: time date\n2 1\n")
    found = [(line, block.fields) for block in blocks_of(str(path)) for line in block.lines]
    assert found == [(b"1 2", ""), (b"2 1", "time date")]


def test_nul_bytes_at_the_end_may_yet_be_written(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    path = tmp_path / "u_ex.log"
    for count in (100, 200, 300):  # A server that allocates its log in blocks.
        written = text(numbered(count))
        path.write_bytes(written + bytes(65_536 - len(written) % 65_536))
        assert import_files([str(path)], options).added == 100
        complete = dataclasses.replace(options, complete=True)
        assert import_files([str(path)], complete).added == 0
    assert lines() == sorted(numbered(300))


def binary_files(directory: Path) -> dict[str, str]:
    """Files by what the error calls them."""
    directory.mkdir()
    (directory / "image").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    with sqlite3.connect(directory / "database") as connection:
        connection.execute("create table a (b)")
    connection.close()
    with tarfile.open(directory / "archive", "w") as archive:
        archive.add(directory / "image", "image")
    (directory / "archive.gz").write_bytes(gzip.compress((directory / "archive").read_bytes()))
    (directory / "twice.gz").write_bytes(gzip.compress(gzip.compress(b"one\n")))
    (directory / "noise").write_bytes(b"".join(hashlib.sha256(bytes([n])).digest() for n in range(200)))
    return {
        "image": "a PNG image", "database": "an SQLite database",
        "archive": "a tar archive", "archive.gz": "a tar archive", "twice.gz": "gzip data in a compressed file",
        "noise": "binary data",
    }  # fmt: skip


def test_what_is_no_log_is_one_error_each_and_holds_up_no_other_file(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    kinds = binary_files(tmp_path / "logs")
    write(tmp_path / "logs" / "z.log", numbered(3))
    messages: list[str] = []
    with pytest.raises(InputError) as last:
        import_files([str(tmp_path / "logs" / "*")], dataclasses.replace(options, say=messages.append))
    errors = [*messages, str(last.value)]
    assert len(errors) == len(kinds)
    for name, kind in kinds.items():
        error = next(error for error in errors if f"/logs/{name} is" in error)
        assert f"{kind}" in error and "not a log" in error
    assert lines() == sorted(numbered(3))


@pytest.mark.parametrize("content", ["plain", "hole", "holes inside", "utf-16", "carriage returns", "mark"])
def test_what_an_earlier_version_has_imported_is_recognised(
    numbered: Numbered, tmp_path: Path, content: str
) -> None:
    data = {
        "plain": text(numbered(2000)),
        "hole": bytes(100_000) + text(numbered(2000)),
        "holes inside": text(numbered(500)) + bytes(3000) + text(numbered(500)) + b"\0\n",
        "utf-16": text(numbered(100), mark="\ufeff", encoding="utf-16-le"),
        "carriage returns": text(numbered(100), end="\r"),
        "mark": text(numbered(100), mark="\ufeff"),
    }[content]
    path = tmp_path / "access.log"
    path.write_bytes(data)
    # It took UTF-16 up to the first byte of the last line feed, and a line without one as it was.
    offset, unended = data.rfind(b"\n") + 1 or len(data), b"\n" not in data
    entry = {
        "id": "a", "site": "default", "path": str(path), "offset": offset, "lines": 1,
        "prefix_length": min(offset, 65_536), "prefix_sha256": hashlib.sha256(data[:offset][:65_536]).hexdigest(),
        "tail_sha256": hashlib.sha256(data[:offset][-4096:]).hexdigest(), "chunk": 0, "unended": unended,
    }  # fmt: skip
    known = Entry.from_json(json.dumps(entry).encode())
    assert recognise(str(path), [known]).kind == "same"
    with open_reader(str(path)) as reader:
        splitter, _ = resume(reader, known)
        blocks = [splitter.feed(reader.read()), splitter.finish()]
    assert [block.lines for block in blocks] == [[], []]


def test_a_part_waits_for_its_rest_across_imports(options: Options, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    part = "x" * 5_000  # No runtime splits a line of less than 4 KiB.
    steps = [
        ([cri("F", "one"), cri("P", part)], 1, 1),
        ([cri("F", "other", "stderr"), cri("P", part)], 0, 1),
        ([cri("F", "!"), cri("P", part)], 2, 1),
    ]
    for more, added, unfinished in steps:
        with path.open("ab") as file:
            file.write("".join(f"{line}\n" for line in more).encode())
        report = import_files([str(path)], options)
        assert (report.added, report.unfinished) == (added, unfinished)
    assert import_files([str(path)], dataclasses.replace(options, complete=True)).added == 1
    assert import_files([str(path)], dataclasses.replace(options, complete=True)).added == 0
    joined = [cri("F", "one"), cri("F", f"{part}{part}!"), cri("F", "other", "stderr"), cri("F", part)]
    assert lines() == sorted(line.encode() for line in joined)


def test_a_line_that_docker_has_split_is_one_line(options: Options, lines: Lines, tmp_path: Path) -> None:
    def entry(log: str) -> str:
        return json.dumps({"log": log, "stream": "stdout", "time": "2026-11-21T10:00:00.1Z"})

    line = f'192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] "GET /?{"q" * 40_000} HTTP/1.1" 200 512\n'
    parts = [entry(line[at : at + 16_384]) for at in range(0, len(line), 16_384)]
    path = tmp_path / "a-json.log"
    path.write_text("".join(f"{part}\n" for part in [entry("before\n"), *parts, entry("after\n")]))
    assert import_files([str(path)], options).added == 3
    assert [json.loads(line)["log"] for line in lines()] == [line, "after\n", "before\n"]
    assert [line for block in blocks_of(str(path)) for line in block.lines] == [
        entry("before\n").encode(), entry(line).encode(), entry("after\n").encode(),
    ]  # fmt: skip
