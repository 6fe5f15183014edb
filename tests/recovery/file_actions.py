"""Random actions over a home of log files, without Kafka and Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.recovery import world as shared
from tests.recovery.file_commands import PART_RECORDS
from tests.recovery.file_engine import FileEngine, commands, sites_of
from tests.recovery.killing import HISTORY_POINTS, Pair, traffic
from tests.recovery.readers import reading
from tests.recovery.world import Action, Say, World, play
from tidemark.contract.quality_tables import ACCOUNTS, INVENTORY, NOTES, PROGRESS, SITES
from tidemark.contract.table import Table
from tidemark.operate.savepoints import savepoints
from tidemark.pipeline import TABLES
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
# More lines than most homes take in.
_LINES, _LINES_OF_ACTION = 1_000, 70
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
    address = shared.any_address(world)
    shared.delete_savepoints(world)
    killed = _kill(world, f"{world.chance.choice(SWAP_POINTS)}@1", "forget", address)
    return f"{killed}; {shared.forget(world, address)}"


def kill_upkeep(world: World) -> str:
    return _kill(world, f"after:{world.chance.uniform(0, 0.5):.2f}", "maintain")


def run_short_of_memory(world: World) -> str:
    """A command whose process gets little memory."""
    path = world.new_file()
    calls: list[list[object]] = [
        ["read", {world.files[path][0]: [str(path)]}, sites_of(world)],
        ["rebuild", "all", sites_of(world)],
        ["maintain"],
    ]
    call = world.chance.choice(calls)
    mebibytes = int(2 ** world.chance.uniform(2, 10))
    assert isinstance(world.engine, FileEngine)
    return f"{mebibytes} MiB, {call[0]}: {world.engine.run_short_of_memory(world, mebibytes, str(call[0]), *call[1:])}"


def _kill(world: World, moment: str, command: str, *arguments: object) -> str:
    assert isinstance(world.engine, FileEngine)
    return world.engine.kill(world, moment, command, *arguments)


_ALWAYS = {table.name for table in (ACCOUNTS, SITES, PROGRESS, INVENTORY, NOTES)}
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
    run_short_of_memory: 2,
}


def play_on_files(
    seed: int, actions: int, directory: Path, say: Say = print, *, homes: int = 1
) -> Counter[str]:
    """Plays a number of random actions in new homes without Kafka and Spark, and returns how often each was done.

    Several homes share the tables that are made of requests, because commits take most of an action's time. A single
    home has readers meanwhile. Raises AssertionError.
    """
    chance, done = random.Random(seed), Counter[str]()
    with commands() as process:
        for number, tables in enumerate(_shared_out(chance, homes)):
            place = directory / str(number)
            place.mkdir()
            lines = traffic(seed + number, lines=_LINES + _LINES_OF_ACTION * (actions // homes), rate=20)
            world = world_of_files(FileEngine(process), place, chance, lines, tables)
            # Reports need tables that most of several homes do not have.
            with reading(world.settings) if homes == 1 else nullcontext() as answered:
                done.update(play(world, ACTIONS, actions // homes, say))
            if answered:
                say(answered.text())
    return done


def world_of_files(
    engine: FileEngine, directory: Path, chance: random.Random, lines: list[Pair], tables: Sequence[Table]
) -> World:
    """A home without Kafka and Spark. A usual import is one batch."""
    settings = Settings.of(home=directory / "home", quality_interval_seconds=0.0)
    return World(engine, settings, directory, chance, lines, most_lines=PART_RECORDS, tables=tables)


def _shared_out(chance: random.Random, homes: int) -> Iterator[list[Table]]:
    """The tables of each home. A table that follows another is where that one is."""
    if homes == 1:
        yield list(TABLES)
        return
    first = [table for table in TABLES if table.aggregation and not table.follows]
    chance.shuffle(first)
    for number in range(homes):
        yield tables_with({table.name for table in first[number::homes]})


def tables_with(names: Collection[str]) -> list[Table]:
    """The tables of these names and what follows them, the tables of lines, and what every home needs."""
    return [
        table
        for table in TABLES
        if table.lines or table.name in {*names, *_ALWAYS} or (table.follows and table.reads in names)
    ]
