from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from tidemark import __version__
from tidemark.cli import tidemark
from tidemark.errors import PlatformError
from tidemark.local import directories, locks, process, records
from tidemark.settings import Settings

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(99)
"""


def test_a_record_lives_as_long_as_its_process(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    sleeper = subprocess.Popen(["sleep", "60"])
    records.write_record(path, sleeper.pid, port=7)
    record = records.live_record(path)
    assert record is not None
    assert (record["pid"], record["port"]) == (sleeper.pid, 7)

    sleeper.kill()
    # Not yet waited for: a zombie does not run.
    assert process.wait_until(lambda: records.live_record(path) is None, 60)
    sleeper.wait()
    assert records.live_record(path) is None
    assert records.read_record(path)["port"] == 7


def test_threads_replace_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "part.json"

    def write(number: int) -> None:
        for turn in range(300):
            records.write_record(path, number=number, turn=turn)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert records.read_record(path)["turn"] == 299
    assert list(tmp_path.iterdir()) == [path]


def test_a_pid_that_was_given_to_another_process_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    records.write_record(path, os.getpid())
    assert records.live_record(path)
    path.write_text(path.read_text().replace('"pid_mark": "', '"pid_mark": "1'), encoding="utf-8")
    assert records.live_record(path) is None


def test_a_copied_record_is_of_another_home(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "run"
    directory.mkdir(parents=True)
    records.write_record(directory / "part.json", os.getpid(), port=7)
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    (tmp_path / "home").rename(tmp_path / "moved")
    assert records.read_record(tmp_path / "copy" / "run" / "part.json") == {}
    assert records.live_record(tmp_path / "copy" / "run" / "part.json") is None
    assert records.live_record(tmp_path / "moved" / "run" / "part.json")


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": "x"}', "\x00"])
def test_a_damaged_record_counts_as_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    path.write_text(text, encoding="utf-8")
    assert records.live_record(path) is None


def test_processes_of_one_pid_differ_by_their_start() -> None:
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        try:
            assert process.process_mark(first.pid) == process.process_mark(first.pid)
            assert process.process_mark(first.pid) is not None
        finally:
            first.kill()
            second.kill()
    assert process.process_mark(first.pid) is None


def test_without_proc_the_start_time_comes_from_ps() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            mark = process.mark_from_ps(sleeper.pid)
            assert mark is not None
            assert time.strptime(mark, "%a %b %d %H:%M:%S %Y").tm_year >= 2025
        finally:
            sleeper.kill()
    assert process.mark_from_ps(sleeper.pid) is None


def test_terminate_kills_what_does_not_end_by_itself(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stubborn = process.spawn([sys.executable, "-c", STUBBORN], log)
    assert process.wait_until(lambda: log.read_bytes() == b"up\n", 60)
    assert process.terminate(stubborn.pid, timeout=0.5) is False
    stubborn.wait()

    polite = process.spawn(["sleep", "60"], log)
    assert process.terminate(polite.pid, timeout=60) is True
    polite.wait()


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError, match=r"cannot write the home .*Name another directory with --home"):
        directories.prepare_home(Settings.of(home=tmp_path / "file" / "home"))


@pytest.mark.parametrize("name", ["a#1", "a?b", "a[1]", "a%20b", "a\\b"])
def test_a_home_below_which_no_table_could_be_opened_is_refused(tmp_path: Path, name: str) -> None:
    mark = re.escape(name[1:-1] if name != "a[1]" else "[")
    message = rf"tables cannot be opened below .*, because of {mark} in its path.* --home"
    with pytest.raises(PlatformError, match=message):
        directories.prepare_home(Settings.of(home=tmp_path / name / "home"))
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["José's home", "100%", "a+b, c&d"])
def test_a_home_may_have_any_other_name(tmp_path: Path, name: str) -> None:
    settings = Settings.of(home=tmp_path / name)
    directories.prepare_home(settings)
    table = str(settings.tables / "gold" / "pages")
    write_deltalake(table, pa.table({"n": [1]}))
    assert len(DeltaTable(table).history()) == 1


def test_a_home_of_a_newer_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Settings.of(home=tmp_path / "home")
    directories.prepare_home(home)
    monkeypatch.setattr(directories, "__version__", "999.1.0")
    directories.prepare_home(home)
    record = records.read_record(home.home / "version.json")
    assert record == {"made": __version__, "written": "999.1.0"}
    monkeypatch.undo()
    with pytest.raises(PlatformError, match=r"written by Tidemark 999\.1\.0.*Use that version"):
        directories.prepare_home(home)
    refused = CliRunner().invoke(tidemark, ["maintain", "--home", str(home.home)])
    assert isinstance(refused.exception, PlatformError) and "999.1.0" in str(refused.exception)
    assert CliRunner().invoke(tidemark, ["status", "--home", str(home.home)]).exit_code == 0
    assert records.read_record(home.home / "version.json") == record


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.locked(path) as first, locks.locked(path, wait=False) as second:
        assert (first, second) == (True, False)
    with locks.locked(path, wait=False) as third:
        assert third
