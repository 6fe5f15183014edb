"""Killed for real, again and again, at named points, at moments seen from outside and at random times, the
pipeline ends with exact tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh, produce
from tests.recovery.killing import finish, kill_at, slices, start_pipeline, traffic
from tests.recovery.scenario import Plan, play
from tidemark.settings import Settings


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments",
    [
        ["requests:between-tables@1", "ledger:between-tables@2", "requests:before-checkpoint@2"],
        [
            "file:tables/gold/visitors_by_country/*.parquet",
            "activity:between-tables@2",
            "activity:before-checkpoint@1",
        ],
    ],
    ids=["requests", "activity"],
)
def test_killed_at_one_moment_after_the_other(
    broker: Settings, spark: SparkSession, tmp_path: Path, moments: list[str]
) -> None:
    """Each start finds what the kill before left behind, and more lines."""
    settings = fresh(broker, tmp_path, batch_lines=500)
    pairs = traffic(seed=11, lines=4_500)
    for part, moment in zip(slices(pairs, len(moments)), moments, strict=True):
        produce(settings, part)
        process = start_pipeline(settings, moment)
        assert kill_at(settings, process, moment) == "in time", (moment, process.communicate()[0])
    finish(spark, settings, pairs)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1])
def test_pipeline_broker_and_import_killed_in_each_others_presence(
    broker: Settings, tmp_path: Path, seed: int
) -> None:
    """One scenario of `make soak`."""
    play(Plan.of(seed, kills=5, lines=6_000), broker, tmp_path, say=print)
