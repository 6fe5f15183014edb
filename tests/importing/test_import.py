"""Every line of a file once, whatever is done to the file, against a real broker."""

from __future__ import annotations

import dataclasses
import gzip
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import InputError, KafkaError, SettingError
from tidemark.importing import sources
from tidemark.importing.file_import import BATCH_LINES, Report
from tidemark.importing.importer import (
    Options,
    import_files,
    open_progress,
    open_sender,
)
from tidemark.importing.lines import MAX_LINE_BYTES
from tidemark.kafka import client as kafka
from tidemark.settings import Settings

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Write = Callable[..., Path]
Start = Callable[..., "subprocess.Popen[bytes]"]


def test_a_file_twice(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    content = numbered(BATCH_LINES * 2 + 10)
    path = write(tmp_path / "access.log", content)

    first, second = import_files([str(path)], options), import_files([str(path)], options)

    assert (first.files, first.added, first.known) == (1, len(content), 0)
    assert (second.files, second.added, second.known) == (1, 0, len(content))
    assert lines() == sorted(content)


@pytest.mark.parametrize("count", [3, 5000])
def test_a_renamed_a_compressed_and_a_grown_file(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path, count: int
) -> None:
    content = numbered(count)
    path = write(tmp_path / "access.log", content)
    assert import_files([str(path)], options).added == count

    renamed = path.rename(tmp_path / "access.log.1")
    assert import_files([str(renamed)], options).added == 0

    more = numbered(7, start=count)
    write(renamed, more, "ab")
    assert import_files([str(renamed)], options).added == 7

    # Compressed, under a name that does not say so.
    packed = tmp_path / "old"
    packed.write_bytes(gzip.compress(renamed.read_bytes()))
    assert import_files([str(packed)], options).added == 0
    assert lines() == sorted(content + more)


def test_parts_in_any_order_by_a_glob(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    for number in (2, 0, 1):
        write(tmp_path / f"{number}.log", numbered(100, start=100 * number))
        import_files([str(tmp_path / "*.log")], options)
    assert lines() == sorted(numbered(300))


def test_a_shorter_copy_of_an_imported_file_adds_nothing_and_says_so(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    content = numbered(3000)
    import_files([str(write(tmp_path / "all.log", content))], options)
    messages: list[str] = []

    report = import_files(
        [str(write(tmp_path / "half.log", content[:1500]))], dataclasses.replace(options, say=messages.append)
    )

    assert report.added == 0 and "half.log" in messages[0] and "--again" in messages[0]
    assert lines() == sorted(content)


def test_another_file_with_the_same_beginning_is_imported_whole(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    one, two = numbered(3000), numbered(2000) + numbered(1500, start=9000)
    import_files([str(write(tmp_path / "one.log", one)), str(write(tmp_path / "two.log", two))], options)
    assert lines() == sorted(one + two)


def test_again_adds_a_file_once_more(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path = write(tmp_path / "access.log", numbered(10))
    import_files([str(path)], options)
    import_files([str(path)], dataclasses.replace(options, again=True))
    import_files([str(path)], options)
    assert lines() == sorted(numbered(10) * 2)


def test_a_file_of_several_names_is_one(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.log", numbered(10))
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "b.log").hardlink_to(path)
    patterns = [str(path), str(tmp_path / "**" / "*.log")]
    report = import_files(patterns, dataclasses.replace(options, again=True))
    assert (report.files, report.added) == (1, 10)
    assert lines() == sorted(numbered(10))


def test_a_file_may_go_between_two_looks_at_it(
    write: Write, numbered: Numbered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, gone = (write(tmp_path / name, numbered(1)) for name in ("a.log", "b.log"))

    def is_stream(path: str) -> bool:
        gone.unlink(missing_ok=True)
        return False

    monkeypatch.setattr(sources, "is_stream", is_stream)
    assert list(sources.states_of([str(there), str(gone)])) == [str(there)]


def test_equal_content_of_two_sites_is_imported_for_each(
    options: Options,
    records: Callable[[], list[tuple[bytes, dict[str, bytes]]]],
    numbered: Numbered,
    write: Write,
    tmp_path: Path,
) -> None:
    path = str(write(tmp_path / "access.log", numbered(3)))
    import_files([path], options)
    import_files([path], dataclasses.replace(options, site="shop", format="combined"))
    import_files([path], dataclasses.replace(options, site="shop", format="combined"))

    headers = [header for _, header in records()]
    assert sorted(map(str, headers)) == sorted(
        map(str, [{}] * 3 + [{"site": b"shop", "format": b"combined"}] * 3)
    )


def test_lines_of_a_w3c_log_are_sent_with_the_names_of_their_columns_and_without_comments(
    options: Options,
    records: Callable[[], list[tuple[bytes, dict[str, bytes]]]],
    tmp_path: Path,
) -> None:
    path = tmp_path / "iis.log"
    path.write_bytes(b"#Software: x\r\n#Fields: date  time c-ip\r\na\r\n#Remark\r\nb\r\n")
    first = import_files([str(path)], options)
    with path.open("ab") as file:  # the import goes on in the middle, with the columns that it knows
        file.write(b"c\r\n#Fields: date time cs-method\r\nd\r\n# the end")
    second = import_files([str(path)], dataclasses.replace(options, complete=True))
    third = import_files([str(path)], dataclasses.replace(options, complete=True))

    assert [(each.added, each.known, each.comments) for each in (first, second, third)] == [
        (2, 0, 3), (2, 2, 2), (0, 4, 0),
    ]  # fmt: skip
    assert sorted((value, headers["fields"]) for value, headers in records()) == [
        (b"a", b"date time c-ip"), (b"b", b"date time c-ip"), (b"c", b"date time c-ip"),
        (b"d", b"date time cs-method"),
    ]  # fmt: skip


def test_bytes_stay_as_they_are(options: Options, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(
        b"crlf\r\n\nnul \0 inside\n\xff\xfe not utf-8\ninner \r return\r\r\nno line feed at the end"
    )
    assert import_files([str(path)], dataclasses.replace(options, complete=True)).added == 6
    assert lines() == sorted(
        [
            b"crlf",
            b"",
            b"nul \0 inside",
            b"\xff\xfe not utf-8",
            b"inner \r return\r",
            b"no line feed at the end",
        ]
    )


def test_a_last_line_that_has_not_ended_waits_for_the_next_import(
    options: Options, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    for content, added, unfinished in (
        (b"on", 0, 1),
        (b"one\ntw", 1, 1),
        (b"one\ntwo\r", 0, 1),
        (b"one\ntwo\r\n", 1, 0),
        (b"one\ntwo\r\nthree", 0, 1),
    ):
        path.write_bytes(content)
        report = import_files([str(path)], options)
        assert (report.added, report.unfinished) == (added, unfinished), content
    assert lines() == [b"one", b"two"]


def test_complete_takes_a_last_line_as_it_stands_once(options: Options, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo")
    complete = dataclasses.replace(options, complete=True)
    for chosen, added in ((options, 1), (complete, 1), (complete, 0), (options, 0)):
        report = import_files([str(path)], chosen)
        assert report.added == added
    assert report.unfinished == 0
    path.write_bytes(b"one\ntwo\nthree\n")
    assert import_files([str(path)], options).added == 1
    assert lines() == [b"one", b"three", b"two"]


def test_a_last_line_that_never_ended_is_taken_from_the_compressed_file(
    options: Options, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo")
    assert import_files([str(path)], options).unfinished == 1
    packed = tmp_path / "access.log.1.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    report = import_files([str(packed)], options)
    assert (report.added, report.unfinished) == (1, 0)
    assert lines() == [b"one", b"two"]


def test_an_empty_file(options: Options, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    (tmp_path / "empty.log.gz").write_bytes(gzip.compress(b""))
    report = import_files([str(path), str(path) + ".gz"], options)
    assert (report.files, report.added) == (2, 0)
    assert lines() == []


def test_a_line_of_5_mb_is_one_record_and_one_of_20_mb_comes_in_chunks(
    options: Options, records: Callable[[], list[tuple[bytes, dict[str, bytes]]]], tmp_path: Path
) -> None:
    five, twenty = os.urandom(2_500_000).hex().encode(), os.urandom(10_000_000).hex().encode()
    path = tmp_path / "long.log"
    path.write_bytes(b"before\n" + five + b"\n" + twenty + b"\r\nafter\n")
    assert import_files([str(path)], options).added == 4

    result = records()
    assert sorted(value for value, headers in result if not headers) == sorted([b"before", five, b"after"])
    parts = {headers["chunk"]: value for value, headers in result if headers}
    assert set(parts) == {b"1/*", b"2/*", b"3/3"}
    assert max(map(len, parts.values())) == MAX_LINE_BYTES
    assert parts[b"1/*"] + parts[b"2/*"] + parts[b"3/3"] == twenty


def test_concatenated_gzip_members(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    content = numbered(2000)
    text = b"".join(line + b"\n" for line in content)
    path = tmp_path / "two-members"
    path.write_bytes(gzip.compress(text[:50_000]) + gzip.compress(text[50_000:]) + b"\0" * 512)
    assert import_files([str(path)], options).added == 2000
    assert lines() == sorted(content)


def test_truncated_gzip_keeps_what_was_readable_and_the_whole_file_adds_the_rest(
    options: Options, lines: Lines, tmp_path: Path
) -> None:
    content = [os.urandom(40).hex().encode() for _ in range(5000)]
    packed = gzip.compress(b"".join(line + b"\n" for line in content))
    path = tmp_path / "access.log.gz"
    path.write_bytes(packed[: len(packed) // 2])

    with pytest.raises(InputError, match=r"access\.log\.gz is truncated"):
        import_files([str(path)], options)
    kept = lines()
    with pytest.raises(InputError, match=f"{len(kept):,} lines of it went in"):
        import_files([str(path)], options)
    assert 1000 < len(kept) < 4000 and set(kept) < set(content)

    path.write_bytes(packed)
    import_files([str(path)], options)
    assert lines() == sorted(content)


def damaged(packed: bytes, at: int) -> bytes:
    return packed[:at] + bytes([packed[at] ^ 4]) + packed[at + 1 :]


def test_no_line_of_a_damaged_gzip_member_is_imported_and_a_sound_copy_goes_on_from_there(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    content = numbered(20_000)
    text = b"".join(line + b"\n" for line in content)
    half = len(text) // 2  # in the middle of a line
    members = gzip.compress(text[:half]), gzip.compress(text[half:])
    path = tmp_path / "access.log.gz"
    sound = text[:half].count(b"\n")
    for packed, kept in (
        (damaged(gzip.compress(text), 30_000), 0),
        (damaged(members[0], 20_000) + members[1], 0),
        (members[0] + damaged(members[1], 20_000), sound),
        (members[0] + damaged(members[1], len(members[1]) - 6), sound),  # the checksum itself
        (members[0] + damaged(members[1], 2), sound),  # its head
    ):
        path.write_bytes(packed)
        with pytest.raises(InputError, match=rf"access\.log\.gz is damaged: .* {kept:,} lines of it went in"):
            import_files([str(path)], options)
        assert lines() == sorted(content[:kept])

    path.write_bytes(gzip.compress(text))
    assert import_files([str(path)], options).added == len(content) - sound
    assert lines() == sorted(content)


def test_what_is_named_gz_and_does_not_begin_so_is_no_text(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    text = b"".join(line + b"\n" for line in numbered(1000))
    path = tmp_path / "access.log.gz"
    for broken, problem in (
        (b"\0" * 512 + gzip.compress(text)[512:], "does not begin like gzip"),
        (b"", "is truncated"),
        (b"\x1f", "is truncated"),
    ):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=problem):
            import_files([str(path)], options)
    path.write_bytes(gzip.compress(text))
    import_files([str(path)], options)
    assert lines() == sorted(numbered(1000))


def test_a_broken_file_holds_up_none_of_the_others(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    broken = tmp_path / "access.log.1.gz"
    broken.write_bytes(damaged(gzip.compress(b"".join(line + b"\n" for line in numbered(1000))), 500))
    log = write(tmp_path / "access.log.2", numbered(10))
    copy = tmp_path / "access.log.3.gz"
    copy.write_bytes(broken.read_bytes())
    report, messages = Report(), []
    with pytest.raises(InputError, match=r"access\.log\.3\.gz is damaged"):
        import_files(
            [str(broken), str(log), str(copy)], dataclasses.replace(options, say=messages.append), report
        )
    assert (report.files, report.added) == (3, 10)
    assert len(messages) == 1 and "access.log.1.gz is damaged" in messages[0]
    assert lines() == sorted(numbered(10))


def test_damaged_gzip_on_standard_input(
    tidemark: Start, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    content = numbered(3000)
    members = [
        gzip.compress(b"".join(line + b"\n" for line in part)) for part in (content[:1000], content[1000:])
    ]
    packed = members[0] + damaged(members[1], 3000)
    path = tmp_path / "damaged"
    path.write_bytes(b"a line that was read before\n" + packed)

    piped = tidemark("-", stdin=subprocess.PIPE)
    out, err = piped.communicate(packed, timeout=60)
    assert piped.returncode == 1 and err.count(b"\n") == 1 and b"1 file: 1,000 lines added" in out
    assert b"standard input is damaged" in err and b"1,000 lines of it went in" in err

    with path.open("rb", buffering=0) as file:
        file.readline()
        assert b"1,000 lines added" in tidemark("-", stdin=file).communicate(timeout=60)[0]
    assert lines() == sorted(content[:1000] * 2)


def test_standard_input_and_a_pipe(tidemark: Start, lines: Lines, numbered: Numbered, tmp_path: Path) -> None:
    content = numbered(1000)
    text = b"".join(line + b"\n" for line in content)
    started = tidemark("-", stdin=subprocess.PIPE)
    out, err = started.communicate(text, timeout=60)
    assert started.returncode == 0, err
    assert b"1 file: 1,000 lines added, 0 already there" in out

    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    threading.Thread(target=lambda: fifo.write_bytes(gzip.compress(text)), daemon=True).start()
    started = tidemark(fifo)
    assert b"1,000 lines added" in started.communicate(timeout=60)[0]
    assert lines() == sorted(content * 2)


def test_both_partitions_are_used(
    options: Options, settings: Settings, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    import_files([str(write(tmp_path / "access.log", numbered(60_000)))], options)
    ends = kafka.end_offsets(settings.kafka, settings.kafka.topic)
    assert len(ends) == 2 and min(ends.values()) > 10_000


def test_all_inputs_are_checked_before_anything_is_sent(
    options: Options, settings: Settings, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    good = str(write(tmp_path / "good.log", numbered(5)))
    for bad, text in (
        (str(tmp_path / "missing.log"), "does not exist"),
        (str(tmp_path), "is a directory"),
        (str(tmp_path / "*.nothing"), "no file matches"),
    ):
        with pytest.raises(InputError, match=text):
            import_files([good, bad], options)
    assert kafka.end_offsets(settings.kafka, settings.kafka.topic) == {}


def test_unusable_site_and_format(settings: Settings) -> None:
    with pytest.raises(SettingError, match="site"):
        Options(settings.kafka, site="a\nb")
    with pytest.raises(SettingError, match="format"):
        Options(settings.kafka, format="iis")


def test_an_import_that_another_has_taken_over_stops(
    options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    content = numbered(BATCH_LINES + 100)
    path = str(write(tmp_path / "access.log", content))
    taken = False

    def take_over(_: int) -> None:
        nonlocal taken
        if not taken:
            taken = True
            progress = open_progress(options.kafka)
            open_sender(content[0], progress, options).close()
            progress.close()

    with pytest.raises(KafkaError, match=r"another import of .* is running"):
        import_files([path], dataclasses.replace(options, advance=take_over))
    import_files([path], options)
    assert lines() == sorted(content)
