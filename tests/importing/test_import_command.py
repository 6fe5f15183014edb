"""`tidemark import` as its user sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import processes
from tidemark.kafka import client as kafka
from tidemark.settings import Settings

Lines = Callable[[], list[bytes]]
Start = Callable[..., "subprocess.Popen[bytes]"]


def test_a_quoted_glob_and_the_final_line(
    tidemark: Start, numbered: Callable[..., list[bytes]], write: Callable[..., Path], tmp_path: Path
) -> None:
    write(tmp_path / "a.log", numbered(1000))
    write(tmp_path / "b.log", numbered(500, start=1000))
    for expected in (
        b"2 files: 1,500 lines added, 0 already there",
        b"2 files: 0 lines added, 1,500 already there",
    ):
        process = tidemark(str(tmp_path / "*.log"), "--site", "shop", "--format", "common")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out.startswith(expected) and err == b""


def test_bad_input_is_one_line_and_a_non_zero_exit(tidemark: Start, tmp_path: Path) -> None:
    for arguments, text in (
        ([tmp_path / "missing.log"], "does not exist"),
        ([tmp_path], "is a directory"),
        ([tmp_path / ("x" * 300)], "cannot be read: File name too long"),
        (["-", "new.log", "--follow"], "cannot be followed beside files"),
        ([tmp_path / "x", "--follow", "--again"], "--again"),
        ([tmp_path / "x", "--follow", "--complete"], "--complete"),
        (["/dev/null", "--follow"], "cannot be followed"),
        # Where a container's log is a link to it, reading would wait for ever.
        (["/dev/stdout"], "this program's own output"),
    ):
        process = tidemark(*arguments, stdin=subprocess.DEVNULL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert text in err.decode() and err.count(b"\n") == 1


@pytest.mark.parametrize("site", ["s" * 201, "two\nlines", "bell\a", ""])
def test_a_site_that_the_pipeline_would_reject_is_refused_before_anything_is_sent(
    tidemark: Start, lines: Lines, write: Callable[..., Path], tmp_path: Path, site: str
) -> None:
    process = tidemark(str(write(tmp_path / "a.log", [b"line"])), "--site", site)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "is not a site name. Use up to 200 printable" in err.decode() and err.count(b"\n") == 1
    assert lines() == []


def test_without_a_broker_it_says_how_to_start_one(
    home: Settings, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.log", [b"line"])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
    environment |= {"TIDEMARK_HOME": str(home.home), "TIDEMARK_BROKER_PORT": "1"}
    started = time.monotonic()
    command = [str(Path(sys.executable).with_name("tidemark")), "import", str(path)]
    done = processes.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"tidemark broker start" in done.stderr and done.stderr.count(b"\n") == 1
    assert time.monotonic() - started < 10


def test_an_unfinished_last_line_is_reported_and_taken_with_complete(
    tidemark: Start, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntw")
    process = tidemark(path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == b""
    assert b"1 file: 1 lines added" in out and b"; 1 unfinished line left" in out and b"--complete" in out

    path.write_bytes(b"one\ntwo\nthree")
    out, _ = tidemark(path, "--complete").communicate(timeout=60)
    assert b"2 lines added, 1 already there" in out and b"unfinished" not in out
    assert lines() == [b"one", b"three", b"two"]


def until_topics(settings: Settings) -> None:
    """Wait until a started import has reached its first input."""
    deadline = time.monotonic() + 30
    while not kafka.end_offsets(settings.kafka, f"{settings.kafka.topic}-imports"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("quiet", ["named pipe", "standard input"])
def test_an_import_that_waits_for_its_input_ends_at_the_first_signal(
    tidemark: Start, settings: Settings, tmp_path: Path, quiet: str, number: int
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = tidemark(pipe if quiet == "named pipe" else "-", stdin=subprocess.PIPE)
    until_topics(settings)
    process.send_signal(number)
    try:
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
    out, err = process.communicate()
    assert out.startswith(b"stopped; 1 file: 0 lines added") and err == b""


def test_a_stopped_pipe_is_read_to_what_it_holds(tidemark: Start, settings: Settings, lines: Lines) -> None:
    process = tidemark("-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    until_topics(settings)
    process.send_signal(signal.SIGSTOP)  # What is written now is unread when the next signal comes.
    process.stdin.write(b"one\ntwo\nthr")
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=60) == 130
    out, _ = process.communicate()
    assert out.startswith(b"stopped; 1 file: 2 lines added")
    assert b"1 unfinished line left. A stream cannot be read again." in out
    assert lines() == [b"one", b"two"]
