"""Batches of files that are recorded are read again as they were, after a kill at any time."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.errors import InputError
from tidemark.importing import files
from tidemark.importing.file_import import Batch, ReadOptions, Report
from tidemark.importing.files import read_again, read_file
from tidemark.importing.identity import Entry
from tidemark.importing.journal import NAME, Journal, Part, Planned, known_bytes
from tidemark.importing.lines import MAX_LINE_BYTES, Block

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
W3C = b"#Fields: date time\n2026-11-22 10:00:00\n#Fields: time\n10:00:01\n10:00:02\n# the end\n10:00:03\n"
CONTENTS = {
    "lines": b"one\ntwo\r\nthree\n" * 400,
    "no line feed at the end": b"one\ntwo\nthree",
    "names of columns": W3C * 50,
    "utf-16": ("\ufeff" + "ab\r\ncd\n" * 300).encode("utf-16-le"),
    "carriage returns": b"one\rtwo\rthree\r" * 200,
    "a long line": b"a\n" + b"x" * (2 * MAX_LINE_BYTES + 5) + b"\nb\n",
    "holes": b"\0" * 10 + b"one\ntwo\n" + bytes(1 << 16) + b"three\n",
    "a hole before a long line": b"one\ntw" + bytes(600) + b"y" * 200 + b"\nthree\nfour\n",
    "NUL bytes before a long line": b"one\n" * 23 + bytes(2) + b"y" * 200 + b"\n",
    "parts of a container": b"".join(
        f"2026-11-22T10:00:00.1Z stdout {tag} {'y' * 5000}\n".encode() for tag in "PPFFPF"
    ),
}


def parts_of(path: Path, most: int) -> list[tuple[Batch, Entry]]:
    """The file's lines in batches of so many, and for each the entry behind it."""
    sent: list[tuple[Batch, Entry]] = []
    how = ReadOptions(complete=True, most_records=most)
    read_file(str(path), [], lambda batch, entry: sent.append((batch, entry)), how, Report())
    return sent


@pytest.mark.parametrize("first", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_a_file_of_which_the_first_look_saw_part_of_its_mark(
    encoding: str, first: int, tmp_path: Path
) -> None:
    path, data = tmp_path / "access.log", "\ufeffone é\ntwo\n".encode(encoding)
    sent: list[tuple[Batch, Entry]] = []
    for end in (first, len(data)):
        path.write_bytes(data[:end])
        known = [entry for _, entry in sent]
        read_file(str(path), known, lambda *each: sent.append(each), ReadOptions(), Report())
    assert [line for batch, _ in sent for block in batch.blocks for line in block.lines] == [
        "one é".encode(),
        b"two",
    ]


def records(blocks: Sequence[Block]) -> list[tuple[bytes, str, str]]:
    return [
        *((line, "", block.fields) for block in blocks for line in block.lines),
        *((data, chunk, block.fields) for block in blocks for data, chunk in block.parts),
    ]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("content", CONTENTS)
def test_a_part_is_read_again_as_it_was(
    content: str, compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(CONTENTS[content]) < MAX_LINE_BYTES:  # then many batches end within it
        monkeypatch.setattr(files, "READ_BYTES", 97)
    path = tmp_path / "access.log"
    path.write_bytes(gzip.compress(CONTENTS[content], 1) if compressed else CONTENTS[content])
    sent = parts_of(path, most=1)
    assert sum(batch.records for batch, _ in sent) > 2
    for batch, after in sent:
        assert records(read_again(str(path), batch.before, after)) == records(batch.blocks)
    whole = [block for batch, _ in sent for block in batch.blocks]
    assert sorted(records(read_again(str(path), None, sent[-1][1]))) == sorted(records(whole))


def test_a_file_that_has_changed_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(CONTENTS["lines"])
    ((_, after),) = parts_of(path, most=10_000)
    path.write_bytes(CONTENTS["lines"][:-4] + b"!!!\n")
    with pytest.raises(InputError, match="has changed"):
        read_again(str(path), None, after)


def planned(number: int, first: int, after: Entry, records: int) -> Planned:
    return Planned(number, first, NOW, {"shop": NOW}, (Part(after.path, None, after, records),))


def test_batches_that_are_not_done_are_known_after_a_kill(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(CONTENTS["lines"])
    ((batch, after),) = parts_of(log, most=10_000)
    journal = Journal.open(tmp_path / NAME)
    batches = [planned(0, 0, after, batch.records), planned(1, batch.records, after, 5)]
    journal.plan(batches[0])
    journal.done(0)
    journal.plan(batches[1])
    with (tmp_path / NAME).open("a") as file:  # killed in the middle of a record
        file.write('{"number": 2, "first"')

    for _ in range(2):  # opening it changes nothing
        again = Journal.open(tmp_path / NAME)
        assert again.unfinished == [batches[1]]
        assert (again.number, again.offset) == (2, batch.records + 5)
        assert again.entries == {after.id: after}
    again.done(1)
    assert Journal.open(tmp_path / NAME).unfinished == []
    assert len((tmp_path / NAME).read_text().splitlines()) == 1, "it does not grow with what is done"


def test_a_journal_says_how_much_of_the_files_is_known(tmp_path: Path) -> None:
    log, other = tmp_path / "access.log", tmp_path / "other.log"
    log.write_bytes(CONTENTS["lines"])
    other.write_bytes(W3C)
    ((batch, after),) = parts_of(log, most=10_000)
    Journal.open(tmp_path / NAME).plan(planned(0, 0, after, batch.records))
    assert known_bytes([str(other), str(log)], tmp_path) == len(CONTENTS["lines"])
    assert known_bytes([str(other)], tmp_path) is None
    log.rename(tmp_path / "access.log.1")
    assert known_bytes([str(tmp_path / "access.log.1")], tmp_path) == len(CONTENTS["lines"])
    (tmp_path / NAME).write_text(json.dumps({"entries": "of another version"}) + "\n")
    assert known_bytes([str(log)], tmp_path) is None
