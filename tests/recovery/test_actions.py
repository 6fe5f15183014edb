"""Random actions over one home: a short run without Kafka and Spark, and those that `make soak` plays for hours."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.recovery.actions import play_actions
from tests.recovery.file_actions import play_on_files
from tidemark.settings import Settings


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_actions_without_spark_end_with_exact_tables(tmp_path: Path, seed: int) -> None:
    play_on_files(seed, 100, tmp_path, homes=4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_random_actions_end_with_exact_tables(
    broker: Settings, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    play_actions(seed, 15, broker, tmp_path, say=print, processes=False)
