"""Clocks that step by five minutes, forwards and backwards, while lines arrive: no count depends on them."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import processes
from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_here, run_process
from tests.pipeline.recount import recount
from tests.recovery.clock import SteppingClock
from tests.recovery.killing import await_running, kill, slices, traffic
from tidemark.contract import aggregation
from tidemark.errors import TableError
from tidemark.local import records
from tidemark.local.process import wait_until
from tidemark.pipeline import Pipeline
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings
from tidemark.stream import accounting, flow, progress

STEPS = (0, 300, -300, 0)


class Steady(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


@pytest.mark.soak
def test_the_pipelines_own_clock_steps(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every clock that is read in the pipeline's own process, between batches and within one."""
    step = timedelta()
    looks = 0

    class Stepping(datetime, metaclass=Steady):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            nonlocal looks
            looks += 1
            return datetime.now(tz) + (step if looks % 3 else -step)

    for module in (accounting, flow, progress, aggregation, records):
        monkeypatch.setattr(module, "datetime", Stepping)
    settings = fresh(broker, tmp_path, batch_lines=500)
    pairs = traffic(seed=61, lines=2_000)
    for seconds, part in zip(STEPS, slices(pairs, len(STEPS)), strict=True):
        step = timedelta(seconds=seconds)
        produce(settings, part)
        run_pipeline(settings, once=True)
    assert looks > 20
    assert_equal(settings, recount(pairs))


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return stepping_clock(tmp_path, monkeypatch)


def stepping_clock(directory: Path, patch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Steps the clock of the processes that are started from now on, by seconds from the true time."""
    try:
        clock = SteppingClock.of(directory)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    for name, value in clock.environment.items():
        patch.setenv(name, value)
    return clock.set


@pytest.mark.slow
def test_the_machines_clock_steps(
    broker: Settings, spark: SparkSession, tmp_path: Path, set_clock: Callable[[int], None]
) -> None:
    """The driver's, its JVM's and its Python workers', all at once, in the middle of their work."""
    settings = fresh(broker, tmp_path, batch_lines=500)
    pairs = traffic(seed=62, lines=2_000)
    started = datetime.now(UTC).timestamp()
    process = run_process(settings, once=False)
    try:
        await_running(settings, process)
        sent = 0
        for seconds, part in zip(STEPS, slices(pairs, len(STEPS)), strict=True):
            set_clock(seconds)
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


@pytest.fixture(scope="module")
def swapped_in_the_future(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """A home whose last swap, of one visitor's rows, was done while the clock was an hour ahead."""
    directory = tmp_path_factory.mktemp("future")
    settings = fresh(broker, directory)
    produce(settings, traffic(seed=63, lines=1_200, rate=1))
    run_here(spark, settings)
    with pytest.MonkeyPatch.context() as patch:
        stepping_clock(directory, patch)(3600)
        forget_address(settings, addresses(settings)[1])
    return settings


@pytest.fixture
def set_back(swapped_in_the_future: Settings, tmp_path: Path) -> Settings:
    """A copy of that home, whose clock is right again."""
    shutil.copytree(swapped_in_the_future.home, tmp_path / "home")
    return swapped_in_the_future.changed(home=tmp_path / "home")


def addresses(settings: Settings) -> list[object]:
    """Addresses of visitors who have sessions, those with most pageviews first."""
    seen = rows(settings, "silver.requests", ["client_ip", "pageview"])
    return [address for address, _ in Counter(row[0] for row in seen if row[1]).most_common()]


def forget_address(settings: Settings, address: object) -> None:
    done = processes.run(
        [sys.executable, "-m", "tidemark", "forget", f"--address={address}"],
        env={**os.environ, **settings.environment()}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_forget_deletes_after_the_clock_was_set_back(set_back: Settings) -> None:
    address = addresses(set_back)[0]
    forget_address(set_back, address)
    assert address not in addresses(set_back)
    numbers = [row for row in rows(set_back, "quality.accounts", ["flow", "batch_id"]) if row[0] == "forget"]
    assert sorted(numbers) == [("forget", 1), ("forget", 2)]


def test_rebuild_puts_its_tables_in_place_after_the_clock_was_set_back(
    set_back: Settings, spark: SparkSession
) -> None:
    before = rows(set_back, "silver.sessions", ["session_id"])
    short = set_back.changed(session_gap_seconds=10)
    rebuilt = Pipeline.of(short).on(spark).rebuild().run(["silver.sessions"])
    assert [result for result in rebuilt if result.what == "rows"]
    assert len(rows(set_back, "silver.sessions", ["session_id"])) > len(before)
    # The note of how the rows were made says what they are.
    run_here(spark, short)
    with pytest.raises(TableError, match=r"silver\.session_goals no longer fits"):
        run_here(spark, set_back)


def _received(settings: Settings) -> int:
    try:
        return sum(int(str(row[0])) for row in rows(settings, "quality.accounts", ["received"]))
    except (FileNotFoundError, OSError):
        return 0
