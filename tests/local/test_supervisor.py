"""The supervisor with small real processes; each is run by a supervisor in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import processes
from tidemark.local.process import wait_until

# A part that says when it starts and ends, and starts a process of its own, as Spark does with its JVM.
CHILD = """
import os, pathlib, signal, subprocess, sys, time
name, directory = sys.argv[1], pathlib.Path(sys.argv[2])
def note(text):
    with (directory / "events").open("a") as events:
        events.write(f"{text} {name}\\n")
def end(*_):
    note("stop")
    sys.exit(0)
if "stubborn" in name:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, end)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(directory / f"{name}.pid").write_text(f"{os.getpid()} {grandchild.pid}")
note("start")
if "failing" in name:
    print("tidemark: the disk is full", flush=True)
    print("something else", flush=True)
    sys.exit(3)
time.sleep(0 if "finishing" in name else 600)
"""

SUPERVISOR = """
import json, pathlib, signal, sys
from tidemark.local.supervisor import Part, supervise
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where whoever runs the tests has it ignored (nohup)
directory, child, names, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], *json.loads(sys.argv[3])
def part(number, name):
    pid = directory / f"{name}.pid"
    return Part(
        name,
        [sys.executable, "-c", child, name, str(directory)],
        directory / f"{name}.log",
        ready=pid.exists if "failing" not in name and "unready" not in name else lambda: False,
        stop_order=-number,
        stop_seconds=1,
        may_finish="finishing" in name,
        awaited="unready" not in name,
    )
news = iter([["something", "happened"]])
sys.exit(supervise([part(*p) for p in enumerate(names)], sys.stdout, seconds, lambda: next(news, ())))
"""


class Supervisor:
    """A supervisor process over children called `names`."""

    def __init__(self, directory: Path, names: list[str], seconds: float | None = None) -> None:
        self.directory = directory
        arguments = [str(directory), CHILD, json.dumps([names, seconds])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def pids(self, name: str) -> list[int]:
        """The pids of a child and of the process that it started, [] before its start."""
        path = self.directory / f"{name}.pid"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def wait_for_start(self, *names: str) -> None:
        assert wait_until(lambda: all(len(self.pids(name)) == 2 for name in names), timeout=30)

    def events(self) -> list[str]:
        return (self.directory / "events").read_text().splitlines()

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for path in tmp_path.glob("*.pid"):
        assert processes.gone(map(int, path.read_text().split()), 5), f"{path.name} is left running"


def test_parts_start_in_order_and_stop_in_theirs(directory: Path) -> None:
    supervisor = Supervisor(directory, ["broker", "pipeline", "traffic"], seconds=0.5)
    out, _ = supervisor.process.communicate(timeout=60)
    assert supervisor.process.returncode == 0
    assert supervisor.events() == [
        *("start broker", "start pipeline", "start traffic"),
        *("stop traffic", "stop pipeline", "stop broker"),
    ]
    # Not a terminal: one plain line per change.
    assert "\x1b" not in out
    assert "something\nhappened\n" in out
    assert [line.split() for line in out.splitlines() if "running" in line] == [
        ["broker", "running"],
        ["pipeline", "running"],
        ["traffic", "running"],
    ]


def test_a_part_that_is_not_awaited_lets_the_next_one_start(directory: Path) -> None:
    supervisor = Supervisor(directory, ["one", "unready", "two"])
    supervisor.wait_for_start("one", "unready", "two")
    supervisor.process.terminate()
    out, _ = supervisor.process.communicate(timeout=60)
    assert not [line for line in out.splitlines() if "unready  running" in line]
    assert supervisor.events()[0] == "start one"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all(number: signal.Signals, directory: Path) -> None:
    supervisor = Supervisor(directory, ["one", "two"])
    supervisor.wait_for_start("one", "two")
    family = supervisor.family()
    assert len(family) == 6

    supervisor.process.send_signal(number)
    assert supervisor.process.wait(timeout=60) == 0
    assert processes.gone(p.pid for p in family)
    assert supervisor.events()[-2:] == ["stop two", "stop one"]


def test_parts_that_do_not_stop_by_themselves_are_killed_within_ten_seconds(directory: Path) -> None:
    supervisor = Supervisor(directory, ["polite", "stubborn", "stubborn2"])
    supervisor.wait_for_start("polite", "stubborn", "stubborn2")
    family = supervisor.family()
    supervisor.process.terminate()
    began = time.monotonic()
    assert supervisor.process.wait(timeout=60) == 0
    assert time.monotonic() - began < 10
    assert processes.gone(p.pid for p in family)
    assert "stop polite" in supervisor.events()


def test_a_part_that_dies_is_started_again_without_what_it_had_started(directory: Path) -> None:
    supervisor = Supervisor(directory, ["one", "two"])
    supervisor.wait_for_start("one", "two")
    child, grandchild = supervisor.pids("one")
    os.kill(child, signal.SIGKILL)

    assert wait_until(lambda: supervisor.pids("one") not in ([], [child, grandchild]), 60)
    assert processes.gone([grandchild])
    supervisor.process.terminate()
    out, _ = supervisor.process.communicate(timeout=60)
    assert supervisor.process.returncode == 0
    assert "one was killed by signal 9" in out
    assert "restarting" in out
    assert supervisor.events().count("start one") == 2
    assert supervisor.events().count("start two") == 1


def test_a_part_whose_guard_is_killed_goes_with_it(directory: Path) -> None:
    supervisor = Supervisor(directory, ["one"])
    supervisor.wait_for_start("one")
    before = supervisor.pids("one")
    guard = psutil.Process(supervisor.process.pid).children()[0]
    guard.kill()
    assert wait_until(lambda: supervisor.pids("one") not in ([], before), 60)
    assert processes.gone(before)
    supervisor.process.terminate()
    supervisor.process.communicate(timeout=60)


def test_a_part_that_never_comes_up_is_given_up_with_its_last_words(directory: Path) -> None:
    supervisor = Supervisor(directory, ["good", "failing", "never"])
    out, _ = supervisor.process.communicate(timeout=60)
    assert supervisor.process.returncode == 1
    assert out.count("failing ended with status 3: the disk is full") == 3
    assert (
        f"tidemark: failing ended whenever it was started. Its log tells more: {directory}/failing.log" in out
    )
    assert "start never" not in supervisor.events()
    assert supervisor.events()[-1] == "stop good"


def test_a_part_that_keeps_dying_is_given_up(directory: Path) -> None:
    supervisor = Supervisor(directory, ["dying"])
    killed: list[int] = []
    while supervisor.process.poll() is None and len(killed) < 10:
        pids = supervisor.pids("dying")
        if pids and pids[0] not in killed:
            time.sleep(0.5)  # long enough to be seen ready
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
        time.sleep(0.05)
    out, _ = supervisor.process.communicate(timeout=60)
    assert supervisor.process.returncode == 1
    assert len(killed) == 5
    assert "tidemark: dying ended 5 times in a minute" in out


def test_a_part_that_may_finish_is_left_finished(directory: Path) -> None:
    supervisor = Supervisor(directory, ["finishing", "other"], seconds=1)
    supervisor.process.communicate(timeout=60)
    assert supervisor.process.returncode == 0
    assert supervisor.events() == ["start finishing", "start other", "stop other"]


def test_no_process_outlives_a_supervisor_that_is_killed(directory: Path) -> None:
    supervisor = Supervisor(directory, ["polite", "other"])
    supervisor.wait_for_start("polite", "other")
    family = supervisor.family()
    supervisor.process.kill()
    supervisor.process.communicate()
    assert processes.gone(p.pid for p in family)
    assert sorted(supervisor.events()[-2:]) == ["stop other", "stop polite"]
