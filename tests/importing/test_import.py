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

from tidemark import kafka
from tidemark.errors import InputError, KafkaError, SettingError
from tidemark.importing.importer import BATCH_LINES, Options, import_files, open_progress, open_sender
from tidemark.importing.lines import MAX_LINE_BYTES
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


def test_pieces_in_any_order_by_a_glob(
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
    said: list[str] = []

    report = import_files(
        [str(write(tmp_path / "half.log", content[:1500]))], dataclasses.replace(options, say=said.append)
    )

    assert report.added == 0 and "half.log" in said[0] and "--again" in said[0]
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


def test_bytes_stay_as_they_are(options: Options, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(
        b"crlf\r\n\nnul \0 inside\n\xff\xfe not utf-8\ninner \r return\r\r\nno line feed at the end"
    )
    assert import_files([str(path)], options).added == 6
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


def test_an_unended_last_line_that_goes_on_later(options: Options, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo")
    import_files([str(path)], options)
    path.write_bytes(b"one\ntwo\nthree\n")
    assert import_files([str(path)], options).added == 1
    assert lines() == [b"one", b"three", b"two"]


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

    found = records()
    assert sorted(value for value, headers in found if not headers) == sorted([b"before", five, b"after"])
    parts = {headers["chunk"]: value for value, headers in found if headers}
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
    assert 1000 < len(kept) < 4000 and set(kept) < set(content)

    path.write_bytes(packed)
    import_files([str(path)], options)
    assert lines() == sorted(content)


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
    ends = kafka.end_offsets(settings, settings.topic)
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
    assert kafka.end_offsets(settings, settings.topic) == {}


def test_unusable_site_and_format(settings: Settings) -> None:
    with pytest.raises(SettingError, match="site"):
        Options(settings, site="a\nb")
    with pytest.raises(SettingError, match="format"):
        Options(settings, format="iis")


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
            progress = open_progress(options.settings)
            open_sender(content[0], progress, options).close()
            progress.close()

    with pytest.raises(KafkaError, match=r"another import of .* is running"):
        import_files([path], dataclasses.replace(options, advance=take_over))
    import_files([path], options)
    assert lines() == sorted(content)
