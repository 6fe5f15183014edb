"""The process that checks tables beside the pipeline: it gives way, is started again, and ends with the pipeline."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.operate.quality.rows import good, rows
from tidemark.cli.tasks import _CHECKS
from tidemark.contract.quality_tables import RESULTS
from tidemark.local.process import process_mark
from tidemark.operate.quality.check import Checker
from tidemark.operate.quality.child import checking
from tidemark.operate.quality.facts import take_moment
from tidemark.operate.quality.runner import watch
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

REQUESTS = next(table for table in TABLES if table.name == "silver.requests")
# A parent that asks for one check, and then lives on.
PARENT = f"""
import sys, time
from tidemark.operate.quality.child import checking
from tidemark.operate.quality.moment import Moment
from tidemark.settings import load
with checking(load(), [sys.executable, *{_CHECKS[1:]!r}]) as check:
    print(len(check(Moment.from_json(sys.argv[1]))), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def store(home: Settings) -> DeltaRsStore:
    """A home with one good request and one that breaks rules."""
    made = DeltaRsStore(lakehouse.of(home))
    for table in TABLES:
        made.ensure(table)
    made.append_arrow(REQUESTS, rows(REQUESTS, good(REQUESTS), good(REQUESTS, 1, status=99, country=None)))
    return made


def test_another_process_finds_the_same_and_gives_way(home: Settings, store: DeltaRsStore) -> None:
    at = take_moment(home, store, TABLES)

    with checking(home, _CHECKS) as check:
        found = check(at)
        [child] = checkers()
        nice, threads = child.nice(), child.environ()["OMP_NUM_THREADS"]
        for number in (signal.SIGINT, signal.SIGTERM):  # to the pipeline's process group
            child.send_signal(number)
        assert child.is_running()

    assert found == Checker(home, store, TABLES).new(at)
    assert {r["expectation"] for r in found if not r["success"]} == {
        "invalid_status", "country_code", "country_located", "rows_accounted_for",
    }  # fmt: skip
    assert (nice, threads) == (19, "1")
    assert not child.is_running()


def test_the_watch_survives_a_failing_run_and_a_killed_process(
    home: Settings, store: DeltaRsStore, caplog: pytest.LogCaptureFixture
) -> None:
    log = Path(lakehouse.of(home).path(REQUESTS)) / "_delta_log"
    hidden = log.with_name("hidden")
    log.rename(hidden)
    troubles: list[str] = []
    stopping = threading.Event()
    eager = home.changed(quality_interval_seconds=0.2)
    side = watch(eager, DeltaRsStore(lakehouse.of(home)), TABLES, _CHECKS, ended=troubles.append)
    thread = threading.Thread(target=side, args=(stopping,))
    with caplog.at_level(logging.ERROR, "tidemark.operate.quality"):
        thread.start()
        try:
            _until(lambda: any("quality run failed" in r.message for r in caplog.records))
            assert store.read(RESULTS).num_rows == 0
            hidden.rename(log)
            _until(lambda: store.read(RESULTS).num_rows > 0)
            assert troubles[-1] == ""

            [child] = checkers()
            child.kill()
            _until(lambda: troubles[-1] != "")
            assert troubles[-1] == "the process that checks the tables ended with status -9"
            before = store.version(RESULTS)
            _until(lambda: store.version(RESULTS) > before)
            assert checkers() != [child]
        finally:
            stopping.set()
            thread.join(timeout=60)
    assert not thread.is_alive() and not checkers()
    assert "silver/requests" in troubles[0]
    assert all("\n" not in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("moment", ["while it starts", "after a check"])
def test_no_process_survives_a_killed_pipeline(home: Settings, store: DeltaRsStore, moment: str) -> None:
    at = take_moment(home, store, TABLES)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, at.to_json()], env={**os.environ, **home.environment()},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert parent.stdout
        _until(lambda: bool(checkers(parent.pid)))
        [child] = checkers(parent.pid)
        if moment == "after a check":
            assert int(parent.stdout.readline()) > 0
    finally:
        parent.kill()
        parent.communicate()
    _until(lambda: process_mark(child.pid) is None)


def checkers(pid: int | None = None) -> list[psutil.Process]:
    """The processes that check tables for a process (default: this one), which may have others."""
    found = psutil.Process(pid).children()
    return [each for each in found if each.cmdline()[1:] == list(_CHECKS[1:])]


def _until(holds: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)
