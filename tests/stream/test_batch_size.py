"""Batches are as large as the freshness goal allows, and get there by themselves."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_here
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.errors import SettingError
from tidemark.local.process import wait_until
from tidemark.machine import heap_mebibytes
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings
from tidemark.stream import batch_size
from tidemark.stream.batch_size import LEAST_LINES, MOST_LINES, BatchSize


def size(home: Settings, **changes: object) -> BatchSize:
    settings = home.changed(**{"driver_memory": "1g", **changes})
    return BatchSize(settings.batches, settings.spark)


def test_at_first_it_is_the_most_whatever_the_heap(home: Settings) -> None:
    assert size(home).lines == MOST_LINES
    assert size(home, driver_memory="2g").lines == MOST_LINES
    assert size(home, master="spark://a:7077", shuffle_partitions=20).lines == 1_000_000


def test_full_batches_that_take_too_long_make_it_smaller(home: Settings) -> None:
    batches = size(home, freshness_goal_seconds=4.0)
    for seconds in (30, 11, 10):
        assert batches.better() is None
        batches.observe(500_000, 4 * seconds)
    assert batches.better() == 50_000
    batches.change(50_000)
    assert (batches.lines, batches.better()) == (50_000, None)


def test_quicker_ones_make_it_larger_up_to_the_most(home: Settings) -> None:
    batches = size(home, freshness_goal_seconds=4.0)
    batches.change(20_000)
    for _ in range(3):
        batches.observe(20_000, 0.1)
    assert batches.better() == MOST_LINES


def test_it_stays_where_it_fits_about_or_nothing_piles_up(home: Settings) -> None:
    batches = size(home, freshness_goal_seconds=4.0)
    for _ in range(3):
        batches.observe(500_000, 6.0)
    assert batches.better() is None
    slow = size(home, freshness_goal_seconds=4.0)
    for _ in range(9):
        slow.observe(500, 6.0)
    assert slow.better() is None


def test_a_size_that_is_set_stays(home: Settings) -> None:
    batches = size(home, batch_lines=1_000, freshness_goal_seconds=1.0)
    for _ in range(3):
        batches.observe(1_000, 60.0)
    assert (batches.lines, batches.better()) == (1_000, None)


def test_it_never_gets_too_small_to_be_worth_a_batch(home: Settings) -> None:
    batches = size(home, freshness_goal_seconds=0.1)
    for _ in range(3):
        batches.observe(500_000, 2400.0)
    assert batches.better() == LEAST_LINES


@pytest.mark.parametrize("memory", ["2", "two", "2t", "0g", "-1g", "1.5g"])
def test_a_heap_that_is_no_size_is_refused(home: Settings, memory: str) -> None:
    with pytest.raises(SettingError, match="driver_memory"):
        heap_mebibytes(home.changed(driver_memory=memory).spark)


def test_the_heap_fits_the_machine(home: Settings) -> None:
    assert 512 <= heap_mebibytes(home.spark) <= 2048
    assert heap_mebibytes(home.changed(driver_memory="1500m").spark) == 1500


@pytest.mark.timeout(180)
def test_a_pipeline_that_catches_up_changes_it_and_counts_the_same(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_size, "MOST_LINES", most := 1_280)
    monkeypatch.setattr(batch_size, "LEAST_LINES", least := 500)
    settings = fresh(broker, tmp_path)
    # Less than a batch of any size takes on any machine.
    settings = replace(settings, batches=replace(settings.batches, freshness_goal_seconds=0.01))
    # Three full batches tell, the one after them is planned already, the next one is smaller.
    pairs = traffic(seed=72, lines=5 * most + least)
    produce(settings, pairs)
    sizes: list[int] = []
    ended = threading.Event()

    def end_after_small_batches() -> None:
        def small() -> bool:
            if (settings.tables / "quality/accounts/_delta_log").exists():
                sizes[:] = [n for (n,) in rows(settings, "quality.accounts", ["received"])]  # type: ignore[misc]
            return any(0 < n <= least for n in sizes)

        wait_until(lambda: ended.is_set() or small(), timeout=150, interval=0.5)
        if not ended.is_set():  # nobody else is there to take the signal
            os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=end_after_small_batches)
    watcher.start()
    try:
        run_pipeline(settings, once=False)
    finally:
        ended.set()
        watcher.join(30)
    assert max(sizes) > 2 * least
    assert min(sizes) <= least
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))
