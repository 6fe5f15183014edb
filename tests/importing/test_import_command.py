"""`tidemark import` as its user sees it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tidemark.settings import Settings

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
        (["-", "--follow"], "cannot be followed"),
        ([tmp_path / "x", "--follow", "--again"], "--again"),
    ):
        process = tidemark(*arguments, stdin=subprocess.DEVNULL)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert text in err.decode() and err.count(b"\n") == 1


def test_without_a_broker_it_says_how_to_start_one(
    home: Settings, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.log", [b"line"])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
    environment |= {"TIDEMARK_HOME": str(home.home), "TIDEMARK_BROKER_PORT": "1"}
    started = time.monotonic()
    command = [str(Path(sys.executable).with_name("tidemark")), "import", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"tidemark broker start" in done.stderr and done.stderr.count(b"\n") == 1
    assert time.monotonic() - started < 10
