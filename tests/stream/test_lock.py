from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests import processes
from tidemark.errors import HomeBusyError, PlatformError
from tidemark.settings import Settings
from tidemark.stream import lock as gate

Hold = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def hold(home: Settings) -> Iterator[Hold]:
    """Starts another process that holds a lock of the home until its input ends; returns once it has it."""
    started = []
    program = (
        "import sys, pathlib; from tidemark.stream import lock; from tidemark.settings import Settings\n"
        "with getattr(lock, sys.argv[1])(Settings.of(home=pathlib.Path(sys.argv[2]))):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )

    def start(lock: str) -> subprocess.Popen[str]:
        process = processes.Popen(
            [sys.executable, "-c", program, lock, str(home.home)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def passes(enter: Callable[[Settings], object], home: Settings, within: float = 0.3) -> threading.Event:
    """An event that is set once the lock is had, by a thread that then lets it go; waits a moment for it."""
    done = threading.Event()

    def take() -> None:
        with enter(home):  # type: ignore[attr-defined]
            done.set()

    threading.Thread(target=take, daemon=True).start()
    done.wait(within)
    return done


def test_batches_run_side_by_side(home: Settings, hold: Hold) -> None:
    hold("batch")
    assert passes(gate.batch, home, within=5).is_set()


def test_rest_waits_for_a_batch_of_another_process(home: Settings, hold: Hold) -> None:
    other = hold("batch")
    resting = passes(gate.at_rest, home)
    assert not resting.is_set()
    other.communicate("")
    assert resting.wait(60)


def test_batches_wait_while_the_tables_rest(home: Settings, hold: Hold) -> None:
    other = hold("at_rest")
    batch = passes(gate.batch, home)
    assert not batch.is_set()
    other.communicate("")
    assert batch.wait(60)


def test_short_batches_pass_while_rest_waits_for_a_long_one(home: Settings, hold: Hold) -> None:
    long = hold("batch")
    resting = passes(gate.at_rest, home)
    assert passes(gate.batch, home, within=5).is_set()
    assert not resting.is_set()
    long.communicate("")
    assert resting.wait(60)


def test_whoever_has_waited_long_for_rest_goes_before_new_batches(
    home: Settings, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_PAUSES_SECONDS", ())
    other = hold("batch")
    resting = passes(gate.at_rest, home)
    late = passes(gate.batch, home)
    assert not resting.is_set() and not late.is_set()
    other.communicate("")
    assert resting.wait(60) and late.wait(60)


def test_who_waits_for_a_patient_batch_holds_up_no_other_one(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_PAUSES_SECONDS", ())
    with gate.batch(home, patient=True):
        resting = passes(gate.at_rest, home)
        assert passes(gate.batch, home, within=5).is_set()
        assert not resting.is_set()
    assert resting.wait(60)


def test_tables_of_patient_batches_rest_beside_other_batches(home: Settings) -> None:
    with gate.batch(home, patient=True):
        resting = passes(gate.patient_at_rest, home)
        assert not resting.is_set()
    assert resting.wait(60)
    with gate.batch(home):
        assert passes(gate.patient_at_rest, home, within=5).is_set()
    with gate.patient_at_rest(home):
        assert passes(gate.batch, home, within=5).is_set()
        rest, patient = passes(gate.at_rest, home), passes(partial(gate.batch, patient=True), home)
        assert not rest.is_set() and not patient.is_set()
    assert rest.wait(60) and patient.wait(60)


def test_a_stream_of_batches_does_not_starve_rest(home: Settings) -> None:
    stop = threading.Event()

    def batches() -> None:
        while not stop.is_set():
            with gate.batch(home):
                time.sleep(0.02)

    flows = [threading.Thread(target=batches, daemon=True) for _ in range(4)]
    for flow in flows:
        flow.start()
    try:
        for _ in range(5):
            assert passes(gate.at_rest, home, within=10).is_set()
    finally:
        stop.set()
        for flow in flows:
            flow.join(60)


@pytest.mark.parametrize("lock", ["batch", "at_rest"])
def test_a_killed_process_leaves_no_lock(lock: str, home: Settings, hold: Hold) -> None:
    other = hold(lock)
    os.kill(other.pid, signal.SIGKILL)
    assert passes(gate.at_rest, home, within=5).is_set()


def test_a_home_has_one_pipeline(home: Settings, hold: Hold) -> None:
    other = hold("only_one")
    with pytest.raises(HomeBusyError, match="another pipeline"), gate.only_one(home):
        pass
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    with gate.only_one(home):
        pass


def test_a_home_that_cannot_be_written_is_a_clear_error(home: Settings) -> None:
    home.home.write_text("a file, not a directory")
    with pytest.raises(PlatformError, match="TIDEMARK_HOME"), gate.batch(home):
        pass
