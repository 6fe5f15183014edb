"""Followed files: growth, rotation both ways, files that come later. Each line once."""

from __future__ import annotations

import dataclasses
import gzip
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tidemark.errors import InputError, PlatformError
from tidemark.importing import follow
from tidemark.importing.file_import import Report
from tidemark.importing.follow import GRACE_SECONDS, follow_files
from tidemark.importing.importer import Options, import_files, open_sender
from tidemark.importing.producer import Sender
from tidemark.importing.sources import expand, followable, open_reader
from tidemark.settings import Settings

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Write = Callable[..., Path]
Following = Callable[..., AbstractContextManager[Report]]


@pytest.fixture
def following(options: Options) -> Following:
    """`with following(pattern, ...)`: follow while the block runs; errors are raised at its end."""

    @contextmanager
    def follow(*patterns: str | Path, **more: Any) -> Iterator[Report]:
        stop, report, failed = threading.Event(), Report(), []

        def run() -> None:
            try:
                chosen = dataclasses.replace(options, stopped=stop.is_set, **more)
                follow_files([str(p) for p in patterns], chosen, report)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield report
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()
        if failed:
            raise failed[0]

    return follow


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.05)


def test_growth_a_late_file_and_an_unended_line(
    following: Following, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path, messages = write(tmp_path / "a.log", numbered(10)), []
    with following(tmp_path / "*.log", tmp_path / "later", say=messages.append) as report:
        until(lambda: report.added == 10)
        write(path, numbered(5, start=10), "ab")
        write(tmp_path / "later", numbered(3, start=100))
        write(tmp_path / "b.log", numbered(4, start=200))
        until(lambda: report.added == 22)
        with path.open("ab") as file:
            file.write(b"not yet")
            file.flush()
            time.sleep(1)
            assert report.added == 22
            file.write(b" complete\n")
        until(lambda: report.added == 23)
    assert messages == [f"{tmp_path / 'later'}: no such file yet, waiting for it"]
    expected = numbered(15) + numbered(3, 100) + numbered(4, 200) + [b"not yet complete"]
    assert lines() == sorted(expected)


def test_rotation_by_rename(
    following: Following, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path, content = tmp_path / "access.log", numbered(400)
    with following(path) as report:
        for start in range(0, 400, 100):
            with path.open("ab") as old:
                old.write(b"".join(line + b"\n" for line in content[start : start + 40]))
                old.flush()
                until(lambda start=start: report.added == start + 40)
                path.rename(tmp_path / f"access.log.{start}")
                write(path, content[start + 40 : start + 70])
                # The server has not reopened its log yet.
                old.write(b"".join(line + b"\n" for line in content[start + 70 : start + 100]))
            until(lambda start=start: report.added == start + 100)
            path.rename(tmp_path / f"access.log.{start}.b")
    assert lines() == sorted(content)


def test_rotation_by_copy_and_truncate_with_the_copies_in_the_glob(
    following: Following, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path, content = tmp_path / "access.log", numbered(6000)
    with following(tmp_path / "access.log*") as report, path.open("ab") as log:
        for start in range(0, 6000, 2000):
            for half in range(start, start + 2000, 1000):
                log.write(b"".join(line + b"\n" for line in content[half : half + 1000]))
                log.flush()
                time.sleep(0.3)
            shutil.copy(path, tmp_path / f"access.log.{start}")
            time.sleep(1.2)
            log.truncate(0)
        until(lambda: report.added == 6000)
        # Each copy is looked at again once its original is gone.
        time.sleep(2.5)
    assert lines() == sorted(content)


def test_a_rotated_file_is_compressed_in_the_glob(
    following: Following, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path = write(tmp_path / "access.log", numbered(3000))
    with following(tmp_path / "access.log*") as report:
        until(lambda: report.added == 3000)
        rotated = path.rename(tmp_path / "access.log.1")
        write(path, numbered(20, start=3000))
        packed = gzip.compress(rotated.read_bytes())
        target = tmp_path / "access.log.1.gz"
        target.write_bytes(packed[: len(packed) // 3])
        time.sleep(1.5)
        target.write_bytes(packed)
        rotated.unlink()
        until(lambda: report.added == 3020)
        time.sleep(GRACE_SECONDS + 3)
    assert lines() == sorted(numbered(3020))


def test_last_line_of_a_file_that_is_removed(following: Following, lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo without end")
    with following(path) as report:
        until(lambda: report.added == 1)
        path.unlink()
        until(lambda: report.added == 2)
    assert lines() == [b"one", b"two without end"]


def test_an_unfinished_line_at_the_end_of_following_waits_for_the_next_import(
    following: Following, options: Options, lines: Lines, tmp_path: Path
) -> None:
    path, short = tmp_path / "access.log", tmp_path / "short.log"
    path.write_bytes(b"one\ntw")
    short.write_bytes(b"th")
    with following(tmp_path / "*.log") as report:
        until(lambda: report.added == 1)
        time.sleep(1.5)
    assert (report.added, report.unfinished) == (1, 2)

    path.write_bytes(b"one\ntwo\n")
    short.write_bytes(b"three\n")
    assert import_files([str(path), str(short)], options).added == 2
    assert lines() == [b"one", b"three", b"two"]


def test_a_file_removed_just_before_the_end_of_following_is_taken_whole(
    following: Following, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\ntwo without end")
    with following(path) as report:
        until(lambda: report.added == 1)
        path.unlink()
    assert (report.added, report.unfinished) == (2, 0)
    assert lines() == [b"one", b"two without end"]


def test_a_file_truncated_in_the_middle_of_a_line_goes_on_in_its_copy(
    following: Following, options: Options, lines: Lines, tmp_path: Path
) -> None:
    path, copy, messages = tmp_path / "access.log", tmp_path / "access.log.1", []
    path.write_bytes(b"one\ntw")
    with following(path, say=messages.append) as report:
        until(lambda: report.added == 1)
        copy.write_bytes(b"one\ntwo\n")
        path.write_bytes(b"four\n")
        until(lambda: report.added == 2)
    assert report.unfinished == 1
    assert len(messages) == 1 and "access.log was truncated in the middle of a line" in messages[0]
    assert import_files([str(copy)], options).added == 1
    assert lines() == [b"four", b"one", b"two"]


def test_compressed_files_that_are_truncated_damaged_or_have_one_line(
    following: Following, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    content, messages = numbered(3000), []
    packed = gzip.compress(b"".join(line + b"\n" for line in content))
    wrong = packed[:5000] + bytes([packed[5000] ^ 4]) + packed[5001:]
    mended, truncated, one = (tmp_path / f"{name}.gz" for name in ("mended", "cut", "one"))
    truncated.write_bytes(gzip.compress(b"of a cut file\n" * 9)[:-4])
    one.write_bytes(gzip.compress(b"one line without an end"))
    mended.write_bytes(wrong)
    with following(tmp_path / "*.gz", say=messages.append) as report:
        until(lambda: report.added == 10 and bool(messages))
        assert "mended.gz is damaged" in messages[0] and "0 lines of it went in" in messages[0]
        mended.write_bytes(packed)  # of the same size
        until(lambda: report.added == 3010)
    assert (
        len(messages) == 2 and "cut.gz is truncated" in messages[1] and "9 lines of it went in" in messages[1]
    )
    assert lines() == sorted([*content, *[b"of a cut file"] * 9, b"one line without an end"])


def test_following_again_goes_on_where_it_stopped(
    following: Following, options: Options, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    path = write(tmp_path / "access.log", numbered(50))
    with following(path) as report:
        until(lambda: report.added == 50)
    write(path, numbered(50, start=50), "ab")
    with following(path) as report:
        until(lambda: report.added == 50)
    assert import_files([str(path)], options).added == 0
    assert lines() == sorted(numbered(100))


def test_what_cannot_be_followed(following: Following, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="standard input"), following("-"):
        pass
    with pytest.raises(InputError, match="directory"), following(tmp_path):
        pass


def test_files_in_utf16_with_carriage_returns_and_of_containers_grow(
    following: Following, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    utf16, returns, container = (tmp_path / name for name in ("utf16.log", "returns.log", "container.log"))
    entry = "2026-11-21T10:00:00.1Z stdout {} {}"
    rest = {
        utf16: ("\ufeff" + "".join(f"{line.decode()}\r\n" for line in numbered(20))).encode("utf-16-le"),
        returns: b"".join(line + b"\r" for line in numbered(20, start=20)),
        container: "".join(
            f"{entry.format('P', number)}\n{entry.format('F', '!')}\n" for number in range(20)
        ).encode(),
    }
    with following(tmp_path / "*.log") as report:
        while any(rest.values()):
            for path, data in rest.items():
                with path.open("ab") as file:  # in the middle of lines, characters and parts
                    file.write(data[:301])
                rest[path] = data[301:]
            time.sleep(0.1)
        until(lambda: report.added == 60)
    joined = [entry.format("F", f"{number}!").encode() for number in range(20)]
    assert lines() == sorted(numbered(40) + joined)


def test_a_first_line_with_a_carriage_return_that_is_seen_before_its_end(
    following: Following, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    with following(path) as report:
        for part in (b"a \rb", b" c\r\r", b"\nd\re\n"):
            with path.open("ab") as file:
                file.write(part)
            time.sleep(1.2)  # a scan
        until(lambda: report.added >= 2)
    assert lines() == [b"a \rb c\r", b"d\re"]


def test_a_writer_that_goes_on_at_its_place_after_copy_and_truncate(
    following: Following, options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    path, content = tmp_path / "access.log", numbered(4000)
    with following(tmp_path / "access.log*") as report, path.open("wb") as log:
        for start in range(0, 4000, 1000):
            log.write(b"".join(line + b"\n" for line in content[start : start + 500]))
            log.flush()
            until(lambda start=start: report.added == start + 500)
            shutil.copy(path, tmp_path / f"access.log.{start}")
            os.truncate(path, 0)
            # The file begins with a hole of the size that it had.
            log.write(b"".join(line + b"\n" for line in content[start + 500 : start + 1000]))
            log.flush()
            until(lambda start=start: report.added == start + 1000)
            time.sleep(1.2)
    assert report.nuls > 0
    assert import_files([str(tmp_path / "access.log*")], options).added == 0
    assert lines() == sorted(content)


def test_a_writer_that_allocates_its_file_before_it_writes(
    following: Following, options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    path, content = tmp_path / "u_ex.log", numbered(50)
    path.write_bytes(bytes(65_536))
    with following(path) as report, path.open("r+b") as log:
        for count, line in enumerate(content, start=1):
            log.write(line + b"\r\n")
            log.flush()
            if count % 10 == 0:
                until(lambda count=count: report.added == count)
        path.rename(tmp_path / "u_ex.1")
    assert import_files([str(tmp_path / "u_ex.1")], options).added == 0
    assert lines() == sorted(content)


def test_a_file_that_is_no_log_is_named_once(
    following: Following, lines: Lines, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    messages: list[str] = []
    with following(tmp_path / "*.log", say=messages.append) as report:
        write(tmp_path / "b.log", numbered(3))
        until(lambda: report.added == 3)
        time.sleep(2.5)
    assert len(messages) == 1 and "a.log is a PNG image, not a log" in messages[0]
    assert lines() == sorted(numbered(3))


@pytest.mark.parametrize("in_place", [True, False])
def test_copies_of_a_growing_file_that_replace_each_other(
    in_place: bool, following: Following, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    """As rsync makes them, with and without --inplace."""
    path, said = tmp_path / "web1.log", list[str]()

    def copy(content: list[bytes]) -> None:
        target = path if in_place else tmp_path / ".web1.log.copy"
        with target.open("r+b" if target.exists() else "wb") as file:
            file.write(b"".join(line + b"\n" for line in content))
        target.replace(path)

    copy(numbered(100))
    with following(tmp_path / "*.log", say=said.append) as report:
        for count in (100, 250, 400):
            copy(numbered(count))
            until(lambda count=count: report.added == count)
        if in_place:
            copy(numbered(500, start=1_000))
            until(lambda: report.added == 900)
            assert said == [f"{path} begins with other lines than before: all its lines are imported"]
    assert lines() == sorted(numbered(400) + (numbered(500, start=1_000) if in_place else []))


_AS_NOBODY = (
    "import os; from tidemark.cli import main; import tidemark.cli.importing, tidemark.cli.inferring\n"
    "os.setgroups([]); os.setgid(65534); os.setuid(65534); main()"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_file_that_may_not_be_read_is_named_and_imported_once_it_may_be(
    settings: Settings, lines: Lines, numbered: Numbered, write: Write
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o777)
        write(place / "1.log", numbered(3))
        command = [sys.executable, "-c", _AS_NOBODY, "import", str(place / "*.log"), "--follow"]
        environment = {**os.environ, **settings.changed(home=place / "home").environment()}
        process = processes.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: len(lines()) == 3)
            path = write(place / ".later", numbered(3, start=10))
            path.chmod(0)
            path = path.rename(place / "2.log")
            assert process.stderr
            assert (
                process.stderr.readline()
                == f"{path} cannot be read: Permission denied. Check path and rights.\n"
            )
            path.chmod(0o644)
            until(lambda: len(lines()) == 6)
        finally:
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=30)
        assert process.returncode == 0, error


@pytest.mark.parametrize("pattern", ["access.log", "*.log"])
def test_a_path_that_cannot_be_known_is_no_file_that_may_come(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = str(tmp_path / "loop" / pattern)
    for each in (followable, lambda path: expand([path])):
        with pytest.raises(InputError, match=r"cannot be read: .*\. Check path and rights\."):
            each(path)


def test_more_files_than_there_may_be_senders(
    following: Following,
    lines: Lines,
    numbered: Numbered,
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, closed, most = [], [], []
    monkeypatch.setattr(follow, "MOST_OPEN", 2)
    close = Sender.close

    def counted(*arguments: Any) -> Sender:
        most.append(len(opened) - len(closed))
        opened.append(open_sender(*arguments))
        return opened[-1]

    monkeypatch.setattr(follow, "open_sender", counted)
    monkeypatch.setattr(Sender, "close", lambda sender: (closed.append(sender), close(sender)))
    paths = [write(tmp_path / f"{n}.log", numbered(10, start=n * 100)) for n in range(4)]
    with following(tmp_path / "*.log") as report:
        until(lambda: report.added == 40)
        for n, path in enumerate(paths):
            write(path, numbered(10, start=n * 100 + 10), "ab")
        until(lambda: report.added == 80)
    assert max(most) == 1
    assert sorted(map(id, opened)) == sorted(map(id, closed))
    assert lines() == sorted(line for n in range(4) for line in numbered(20, start=n * 100))


def test_following_ends_between_two_new_files(
    options: Options, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    for n in range(4):
        write(tmp_path / f"{n}.log", numbered(10, start=n * 100))
    report = Report()
    chosen = dataclasses.replace(options, stopped=lambda: report.files > 0)
    follow_files([str(tmp_path / "*.log")], chosen, report)
    assert (report.files, report.added) == (1, 10)


def test_a_limit_of_open_files_is_named(tmp_path: Path, numbered: Numbered, write: Write) -> None:
    path = str(write(tmp_path / "a.log", numbered(1)))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        with pytest.raises(PlatformError, match=r"too few open files: .*a\.log\. Raise their limit"):
            open_reader(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
