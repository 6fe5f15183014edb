"""Random actions over one home, as `make soak` plays them for hours."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.recovery.actions import play_actions
from tidemark.settings import Settings


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_random_actions_end_with_exact_tables(
    broker: Settings, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    play_actions(seed, 15, broker, tmp_path, say=print, processes=False)
