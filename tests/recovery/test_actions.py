"""Random actions over one home: a short run without Kafka and Spark, and those that `make soak` plays for hours."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.recovery.actions import play_actions
from tests.recovery.file_actions import play_on_files, tables_with, world_of_files
from tests.recovery.file_engine import FileEngine, commands
from tests.recovery.killing import traffic
from tests.recovery.world import change_hosts, compare, import_new
from tidemark.settings import Settings


@pytest.mark.parametrize(
    ("seed", "actions"), [(1, 48), *(pytest.param(seed, 100, marks=pytest.mark.soak) for seed in (1, 2, 3))]
)
def test_random_actions_without_spark_end_with_exact_tables(tmp_path: Path, seed: int, actions: int) -> None:
    play_on_files(seed, actions, tmp_path, homes=4)


def test_own_hosts_that_are_changed_back_hold_for_lines_that_came_meanwhile(tmp_path: Path) -> None:
    """These were read by others, and no difference to the settings of history tells so."""
    with commands() as process:
        world = world_of_files(
            FileEngine(process),
            tmp_path,
            random.Random(1),
            traffic(seed=1, lines=1_000),
            tables_with(["silver.sessions"]),
        )
        for change in (change_hosts, change_hosts):
            for _ in range(4):
                import_new(world)
            change(world)
        import_new(world)
        compare(world)


def test_a_killed_recount_takes_over_no_lines_that_were_read_with_other_settings(tmp_path: Path) -> None:
    """The own hosts of shop are set, which history never gets, unset and set again."""
    with commands() as process:
        engine = FileEngine(process)
        world = world_of_files(
            engine, tmp_path, random.Random(1), traffic(seed=1, lines=1_000), tables_with(["silver.sessions"])
        )
        for _ in range(2):
            import_new(world)
        change_hosts(world)
        assert engine.kill(world, "swap:before-journal@1", "fill").startswith("killed")
        change_hosts(world)
        for _ in range(4):
            import_new(world)
        change_hosts(world)
        compare(world)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", [108, 113, 114, 117])
def test_seeds_that_failed_once(tmp_path: Path, seed: int) -> None:
    play_on_files(seed, 500, tmp_path, homes=4)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", [44, 10020, 10054, 20040, 20054, 30061])
def test_scenarios_of_the_soak_that_failed_once(tmp_path: Path, seed: int) -> None:
    """Those that end with 0 are on a pipeline."""
    options = f"--scenarios 1 --seed {seed} --directory {tmp_path} -v"
    subprocess.run([sys.executable, "-m", "tests.recovery.soak", *options.split()], check=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_random_actions_end_with_exact_tables(
    broker: Settings, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    play_actions(seed, 15, broker, tmp_path, say=print, processes=False)
