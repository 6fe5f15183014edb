"""The tables equal an independent recomputation, in any order of arrival."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.harness import (
    SHARED_LOG,
    assert_equal,
    fresh,
    produce,
    run_here,
    shared_lines,
)
from tests.pipeline.recount import recount
from tidemark.importing.importer import Options, import_files
from tidemark.settings import Settings

real_log = pytest.mark.skipif(not SHARED_LOG.exists(), reason="the real log file is not on this machine")


@real_log
def test_real_log_imported_in_one_go_and_twice(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path)
    expected = recount(("default", line) for line in shared_lines())
    assert (expected.accepted, expected.rejected) == (10_000, 0)
    for added in (10_000, 0):
        report = import_files([str(SHARED_LOG)], Options(settings.kafka))
        assert report.added == added
        run_here(spark, settings)
        assert_equal(settings, expected)


@real_log
def test_real_log_in_three_parts_with_restarts_in_between(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    lines = shared_lines()
    for start in range(0, 10_000, 4_000):
        part = tmp_path / f"piece-{start}.log"
        part.write_bytes(b"\n".join(lines[start : start + 4_000]) + b"\n")
        import_files([str(part)], Options(settings.kafka))
        run_here(spark, settings)
    assert_equal(settings, recount(("default", line) for line in lines))


@real_log
def test_real_log_with_the_last_part_first(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path)
    lines = shared_lines()
    for start in (9_000, *range(0, 9_000, 3_000)):
        size = 1_000 if start == 9_000 else 3_000
        produce(settings, (("default", line) for line in lines[start : start + size]))
        run_here(spark, settings)
    assert_equal(settings, recount(("default", line) for line in lines))


@real_log
@pytest.mark.parametrize(("seed", "small"), [(1, 50_000), (2, 0)], ids=["local", "executors"])
def test_real_log_shuffled_over_two_sites_in_random_batches(
    broker: Settings,
    spark: SparkSession,
    tmp_path: Path,
    seed: int,
    small: int,
) -> None:
    chance = random.Random(seed)
    settings = fresh(broker, tmp_path, batch_lines=1_700, local_rows=small)
    pairs = [(chance.choice(["default", "shop"]), line) for line in shared_lines()]
    chance.shuffle(pairs)
    bounds = sorted(chance.sample(range(1, 10_000), 2))
    for start, end in zip([0, *bounds], [*bounds, 10_000], strict=True):
        produce(settings, pairs[start:end])
        run_here(spark, settings)
    assert_equal(settings, recount(pairs))
