"""Work in a process of its own: it gives way, is started again if it ends, and ends with its parent."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests import processes
from tests.operate.quality.rows import good, rows
from tidemark.contract.quality_tables import RESULTS
from tidemark.errors import PlatformError, TidemarkError
from tidemark.home import Home
from tidemark.local.process import process_mark, wait_until
from tidemark.operate.background import in_background
from tidemark.operate.quality.check import Checker
from tidemark.operate.quality.facts import take_moment
from tidemark.operate.quality.runner import checking, watch
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.settings.sections import WatchingSettings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

REQUESTS = next(table for table in TABLES if table.name == "silver.requests")
# A parent that lets the process sleep, and then sleeps itself.
PARENT = """
import sys, time
from functools import partial
from tidemark.operate.background import in_background
from tidemark.settings.sections import WatchingSettings
with in_background("naps", 19, WatchingSettings(), partial(partial, time.sleep)) as nap:
    nap(float(sys.argv[1]))
    print("awake", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def store(home: Settings) -> DeltaRsStore:
    """A home with one good request and one that breaks rules."""
    delta_store = DeltaRsStore(lakehouse.of(home))
    for table in TABLES:
        delta_store.ensure(table)
    delta_store.append_arrow(
        REQUESTS, rows(REQUESTS, good(REQUESTS), good(REQUESTS, 1, status=99, country=None))
    )
    return delta_store


def test_a_process_gives_way_and_is_started_again_if_it_ends() -> None:
    load = partial(partial, divmod, 7)
    with in_background("division", 3, WatchingSettings(), load) as divided:
        assert not processes.in_background("division")
        assert divided(2) == (3, 1)
        [child] = processes.in_background("division")
        assert child.nice() == min(psutil.Process().nice() + 3, 19)
        assert child.environ()["OMP_NUM_THREADS"] == "1"
        for number in (signal.SIGINT, signal.SIGTERM):  # to the pipeline's process group
            child.send_signal(number)
        with pytest.raises(TidemarkError, match="modulo by zero"):
            divided(0)
        assert processes.in_background("division") == [child]

        child.kill()
        with pytest.raises(PlatformError, match="the process for division ended with status -9"):
            divided(2)
        assert divided(3) == (2, 1)
        [other] = processes.in_background("division")
    assert other != child and not other.is_running()


@pytest.mark.parametrize("seconds", [600, 0], ids=["in a call", "after a call"])
def test_no_process_survives_a_killed_parent(seconds: int) -> None:
    parent = processes.Popen([sys.executable, "-c", PARENT, str(seconds)], stdout=subprocess.PIPE, text=True)
    try:
        assert wait_until(lambda: bool(processes.in_background("naps", parent.pid)), 60)
        [child] = processes.in_background("naps", parent.pid)
        if not seconds:
            assert parent.stdout and parent.stdout.readline() == "awake\n"
    finally:
        parent.kill()
        parent.communicate()
    assert wait_until(lambda: process_mark(child.pid) is None, 60)


def test_another_process_finds_the_same(home: Settings, store: DeltaRsStore) -> None:
    at = take_moment(Home.of(home, TABLES))

    with checking(Home.of(home, TABLES)) as check:
        result = check(at)
        [child] = processes.in_background("quality")
        nice = child.nice()

    assert result == Checker(Home.of(home, TABLES)).new(at)
    assert {r["expectation"] for r in result if not r["success"]} == {
        "status_in_range", "country_code", "country_located", "rows_accounted_for",
    }  # fmt: skip
    assert nice == 19 and not child.is_running()


def test_the_watch_survives_a_failing_run_and_a_killed_process(
    home: Settings, store: DeltaRsStore, caplog: pytest.LogCaptureFixture
) -> None:
    log = Path(lakehouse.of(home).path(REQUESTS)) / "_delta_log"
    hidden = log.with_name("hidden")
    log.rename(hidden)
    troubles: list[str] = []
    stopping = threading.Event()
    eager = home.changed(quality_interval_seconds=0.2)
    side = watch(Home.of(eager, TABLES), ended=troubles.append)
    thread = threading.Thread(target=side, args=(stopping,))
    with caplog.at_level(logging.ERROR, "tidemark.operate.quality"):
        thread.start()
        try:
            assert wait_until(lambda: any("quality run failed" in r.message for r in caplog.records), 90)
            assert store.read(RESULTS).num_rows == 0
            hidden.rename(log)
            assert wait_until(lambda: store.read(RESULTS).num_rows > 0, 90)
            assert troubles[-1] == ""

            [child] = processes.in_background("quality")
            child.kill()
            assert wait_until(lambda: troubles[-1] != "", 90)
            assert troubles[-1] == "the process for quality ended with status -9"
            before = store.version(RESULTS)
            assert wait_until(lambda: store.version(RESULTS) > before, 90)
            assert processes.in_background("quality") != [child]
        finally:
            stopping.set()
            thread.join(timeout=60)
    assert not thread.is_alive() and not processes.in_background("quality")
    assert "silver/requests" in troubles[0]
    assert all("\n" not in r.getMessage() for r in caplog.records)
