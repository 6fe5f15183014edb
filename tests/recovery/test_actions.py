"""Random actions over one home: a short run without Kafka and Spark, and those that `make soak` plays for hours."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.recovery import world as shared
from tests.recovery.actions import play_actions
from tests.recovery.file_engine import PART_RECORDS, FileEngine, sites_of
from tests.recovery.killing import HISTORY_POINTS, traffic
from tests.recovery.world import Action, Say, World, play
from tidemark.operate.savepoints import savepoints
from tidemark.settings import Settings

READING_POINTS = (
    "files:planned",
    "requests:between-tables",
    "requests:before-ledger",
    "ledger:between-tables",
    "activity:between-tables",
    "activity:before-followers",
    "files:before-done",
)
SAVING_POINTS = ("savepoint:create", "savepoint:before-done")
RESTORING_POINTS = ("restore:prepared", "restore:between@1", "restore:between@2", "restore:before-end")
SWAP_POINTS = tuple(point for point in HISTORY_POINTS if point.startswith("swap:"))


def kill_import(world: World) -> str:
    """An import of several batches, which any later action completes."""
    path = world.new_file(5 * PART_RECORDS)
    moment = f"{world.chance.choice(READING_POINTS)}@{world.chance.randint(1, 3)}"
    if world.chance.random() < 0.4:
        moment = f"after:{world.chance.uniform(0, 1.5):.2f}"
    return _kill(world, moment, "read", {world.files[path][0]: [str(path)]}, sites_of(world))


def kill_rebuild(world: World) -> str:
    return _kill(world, f"{world.chance.choice(HISTORY_POINTS)}@1", "rebuild", "all", sites_of(world))


def kill_fill(world: World) -> str:
    """History with other own hosts, killed while it is made."""
    shared.change_hosts(world)
    return _kill(world, f"{world.chance.choice(HISTORY_POINTS)}@1", "fill")


def kill_save(world: World) -> str:
    return _kill(world, world.chance.choice(SAVING_POINTS), "save", f"at-{len(savepoints(world.settings))}")


def kill_restore(world: World) -> str:
    """Every command then asks for the same restore."""
    if not (kept := savepoints(world.settings)):
        return "no savepoint"
    return _kill(world, world.chance.choice(RESTORING_POINTS), "restore", world.chance.choice(kept).name)


def kill_forget(world: World) -> str:
    """It has deleted nothing, or all; the next one deletes all."""
    address = world.chance.choice(world.sent)[1].split()[0].decode()
    shared.delete_savepoints(world)
    killed = _kill(world, f"{world.chance.choice(SWAP_POINTS)}@1", "forget", address)
    return f"{killed}; {shared.forget(world, address)}"


def kill_upkeep(world: World) -> str:
    return _kill(world, f"after:{world.chance.uniform(0, 0.5):.2f}", "maintain")


def _kill(world: World, moment: str, command: str, *arguments: object) -> str:
    assert isinstance(world.engine, FileEngine)
    return world.engine.kill(world, moment, command, *arguments)


ACTIONS: Mapping[Action, int] = {
    shared.import_new: 8,
    shared.import_appended: 5,
    shared.import_again: 3,
    shared.catch_up: 3,
    shared.compare: 2,
    shared.rebuild: 3,
    shared.declare_goal: 1,
    shared.change_hosts: 1,
    shared.change_gap: 1,
    shared.change_formats: 1,
    shared.change_proxies: 1,
    shared.save: 3,
    shared.restore: 2,
    shared.forget: 1,
    shared.maintain: 3,
    shared.report: 2,
    kill_import: 8,
    kill_rebuild: 4,
    kill_fill: 2,
    kill_save: 1,
    kill_restore: 2,
    kill_forget: 1,
    kill_upkeep: 2,
}


def play_on_files(seed: int, actions: int, directory: Path, say: Say = print) -> None:
    """Plays a number of random actions in a new home without Kafka and Spark. Raises AssertionError."""
    with FileEngine() as engine:
        settings = Settings.of(home=directory / "home", quality_interval_seconds=0.0)
        lines = traffic(seed, lines=PART_RECORDS * (actions + 10), rate=20)
        # A usual import is one batch: its commits to all tables take most of the time.
        world = World(engine, settings, directory, random.Random(seed), lines, most_lines=PART_RECORDS)
        play(world, ACTIONS, actions, say)


@pytest.mark.parametrize("seed", [1])
def test_random_actions_without_spark_end_with_exact_tables(tmp_path: Path, seed: int) -> None:
    play_on_files(seed, 40, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_random_actions_end_with_exact_tables(
    broker: Settings, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    play_actions(seed, 15, broker, tmp_path, say=print, processes=False)
