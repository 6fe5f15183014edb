"""A batch of few rows that are too long to be fetched is worked off all the same."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce, run_here
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.settings import Settings
from tidemark.stream import direct


def test_rows_too_long_to_be_fetched_are_left_to_executors(
    broker: Settings,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "_MOST_BYTES", 100 << 10)
    settings = fresh(broker, tmp_path)
    pairs = traffic(seed=5, lines=6_000)
    produce(settings, pairs)
    conf = spark.sparkContext._jsc.sc().conf()  # type: ignore[attr-defined]
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "1m")
    try:
        with caplog.at_level(logging.INFO, logger="tidemark.stream"):
            run_here(spark, settings)
    finally:
        conf.set("spark.driver.maxResultSize", before)
    assert "batch 0 of requests has few rows, but long ones" in caplog.text
    assert_equal(settings, recount(pairs))


def test_batches_of_more_rows_than_the_setting_run_in_executors(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path, local_rows=100)
    pairs = traffic(seed=6, lines=200)
    for start in (0, 50):
        produce(settings, pairs[start : start + 150] if start else pairs[:50])
        run_here(spark, settings)
    by_executors = sorted(path.name.startswith("part-requests-") for path in files_of_requests(settings))
    assert by_executors[0] is False and by_executors[-1] is True
    assert_equal(settings, recount(pairs))


def files_of_requests(settings: Settings) -> list[Path]:
    return list((settings.tables / "silver" / "requests").glob("*.parquet"))
