"""Parts of an example as processes: killed, finished, failed, stopped, and never left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from examples.kit.conductor import Conductor
from examples.kit.events import Events
from examples.kit.load import Event, Load, send
from tests import processes
from tests.examples.kit.standin import FOLLOWER, JOB
from tidemark.errors import InputError, PlatformError
from tidemark.local.process import wait_until
from tidemark.settings import Settings


@pytest.fixture
def home(broker: Settings, tmp_path: Path) -> Settings:
    return broker.changed(home=tmp_path)


def notes(home: Settings) -> list[tuple[str, int]]:
    """What the parts noted: which, and its pid."""
    lines = (home.home / "notes").read_text().splitlines()
    return [(what, int(pid)) for what, pid in (line.split() for line in lines)]


def assert_nothing_runs(home: Settings) -> None:
    assert processes.gone((pid for _, pid in notes(home)), 5)


def test_without_a_kill_the_job_finishes_after_the_input(home: Settings) -> None:
    shown: list[int] = []
    with Conductor(JOB, "tests.examples.kit.standin", home, Load(seconds=0.2)) as conductor:
        assert conductor.run(lambda: shown.append(1), kill=False)
    assert [what for what, _ in notes(home)] == ["job", "load", "finished"]
    assert shown
    assert_nothing_runs(home)


def test_a_killed_job_is_started_again_and_finishes(home: Settings) -> None:
    with Conductor(JOB, "tests.examples.kit.standin", home, Load(seconds=0.2)) as conductor:
        assert conductor.run(lambda: None, kill=True)
        ((down, up),) = conductor.outages()
        assert down < up
    (_, first), _, (_, second), (_, finished) = notes(home)
    assert [what for what, _ in notes(home)] == ["job", "load", "job", "finished"]
    assert first != second == finished
    assert_nothing_runs(home)


def test_the_input_begins_when_the_job_is_ready(home: Settings) -> None:
    unready = home.home / "unready"
    unready.touch()
    messages: list[str] = []
    early: list[str] = []

    def let_it_be_ready() -> None:
        wait_until(lambda: (home.home / "notes").exists() and len(notes(home)) == 2, 60)
        time.sleep(0.5)
        early.extend(messages)
        unready.unlink()

    watcher = threading.Thread(target=let_it_be_ready)
    watcher.start()
    with Conductor(JOB, "tests.examples.kit.standin", home, Load(seconds=0.2)) as conductor:
        assert conductor.run(lambda: None, kill=False, say=messages.append)
        assert conductor.outages() == []
    watcher.join()
    assert early == []
    assert len(messages) == 1 and messages[0].startswith("ready after")


def test_a_follower_runs_is_killed_and_finishes_with_its_job(home: Settings) -> None:
    job = replace(JOB, followers=(FOLLOWER,))
    with Conductor(job, "tests.examples.kit.standin", home, Load(seconds=0.2)) as conductor:
        assert conductor.run(lambda: None, kill=True)
    result = notes(home)
    assert sorted(what for what, _ in result[:2]) == ["follower", "job"]
    assert result[2][0] == "load"
    # The job may have finished before the follower, started with it, has got to its first note.
    again = result[3:]
    assert sorted(what for what, _ in again) == ["finished", "finished", "follower", "job"]
    pids = {what: pid for what, pid in again if what != "finished"}
    assert [pid for what, pid in again if what == "finished"] == [pids["job"], pids["follower"]]
    assert not {pid for _, pid in result[:2]} & set(pids.values())
    assert_nothing_runs(home)


def test_a_job_that_fails_is_an_error_with_its_last_words(home: Settings) -> None:
    (home.home / "fail").touch()
    with (
        pytest.raises(PlatformError, match=r"job ended with status 1.*cannot work like this"),
        Conductor(JOB, "tests.examples.kit.standin", home, Load(seconds=60)) as conductor,
    ):
        conductor.run(lambda: None, kill=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_parts(home: Settings, number: signal.Signals) -> None:
    def stop_once_both_run() -> None:
        wait_until(lambda: (home.home / "notes").exists() and len(notes(home)) == 2, 60)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    watcher = threading.Thread(target=stop_once_both_run)
    watcher.start()
    with Conductor(JOB, "tests.examples.kit.standin", home, Load()) as conductor:
        assert not conductor.run(lambda: None, kill=False)
    watcher.join()
    assert [what for what, _ in notes(home)] == ["job", "load"]
    assert_nothing_runs(home)
    assert signal.getsignal(number) is before


def test_a_recount_needs_empty_topics(home: Settings) -> None:
    topic = f"conducted-{uuid4()}"
    job = replace(JOB, inputs=(Events(topic, "a string"),))
    with Conductor(job, "tests.examples.kit.standin", home, Load(seconds=0.1)) as conductor:
        assert conductor.run(lambda: None, kill=True)
    send([Event(0, topic, b"{}")], home.kafka, threading.Event())
    with (
        pytest.raises(InputError, match=f"{topic}.*earlier run"),
        Conductor(job, "tests.examples.kit.standin", home, Load(seconds=0.1)) as conductor,
    ):
        conductor.run(lambda: None, kill=True)
