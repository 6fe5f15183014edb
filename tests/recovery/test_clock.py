"""Clocks that step by five minutes, forwards and backwards, while lines arrive: no count depends on them."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_process
from tests.pipeline.recount import recount
from tests.recovery.killing import await_running, kill, slices, traffic
from tidemark import pipeline
from tidemark.flow import accounting, flow, progress
from tidemark.local import process as processes
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.tasks import run_pipeline

STEPS = (0, 300, -300, 0)

_LIBRARY = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")


def test_the_pipelines_own_clock_steps(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every clock that is read in the pipeline's own process, between batches and within one."""
    step = timedelta()
    looks = 0

    class Stepping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            nonlocal looks
            looks += 1
            return datetime.now(tz) + (step if looks % 3 else -step)

    for module in (accounting, flow, progress, pipeline, processes):
        monkeypatch.setattr(module, "datetime", Stepping)
    settings = fresh(broker, tmp_path, batch_lines=500)
    pairs = traffic(seed=61, lines=4_000)
    for seconds, part in zip(STEPS, slices(pairs, len(STEPS)), strict=True):
        step = timedelta(seconds=seconds)
        produce(settings, part)
        run_pipeline(settings, once=True)
    assert looks > 20
    assert_equal(settings, recount(pairs))


@pytest.mark.slow
@pytest.mark.skipif(not _LIBRARY, reason="libfaketime is not installed")
def test_the_machines_clock_steps(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver, its JVM and its Python workers, all at once, in the middle of their work."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    for name, value in {
        "LD_PRELOAD": _LIBRARY,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }.items():
        monkeypatch.setenv(name, value)
    settings = fresh(broker, tmp_path, batch_lines=500)
    pairs = traffic(seed=62, lines=4_000)
    started = datetime.now(UTC).timestamp()
    process = run_process(settings, once=False)
    try:
        await_running(settings, process)
        sent = 0
        for seconds, part in zip(STEPS, slices(pairs, len(STEPS)), strict=True):
            clock.write_text(f"{seconds:+d}\n")
            for few in slices(part, 4):
                produce(settings, few)
                sent += len(few)
            assert wait_until(lambda expected=sent: _received(settings) == expected, 60)  # type: ignore[misc]
        os.killpg(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
    finally:
        if process.poll() is None:
            kill(process)
    times = [row[0] for row in rows(settings, "quality.accounts", ["committed_at"])]
    assert max(times) > time.time() + 200 and min(times) < started, "the clock did not step"
    run_pipeline(settings, once=True)
    assert_equal(settings, recount(pairs))


def _received(settings: Settings) -> int:
    try:
        return sum(int(str(row[0])) for row in rows(settings, "quality.accounts", ["received"]))
    except (FileNotFoundError, OSError):
        return 0
