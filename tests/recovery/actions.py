"""Random actions over a home on a real Kafka and Spark, beside those of any home (`tests.recovery.world`)."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests import processes
from tests.fixtures.home import KEPT, unpack
from tests.pipeline.harness import fresh, produce, rows, run_process
from tests.pipeline.recount import Delivery, delivered_once
from tests.recovery import world as shared
from tests.recovery.clock import SteppingClock
from tests.recovery.ground import fill, make_room, small_disk
from tests.recovery.killing import (
    FILES,
    HISTORY_POINTS,
    POINTS,
    java_of,
    kill_at,
    kill_broker,
    revive,
    start_pipeline,
    traffic,
)
from tests.recovery.readers import reading
from tests.recovery.sources import import_objects, ingest, killed_import
from tests.recovery.world import Action, Say, World, explained, play
from tidemark.errors import HomeBusyError, TidemarkError
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.local.process import wait_until
from tidemark.operate.savepoints import savepoints
from tidemark.service.forget import forget_visitor
from tidemark.service.rebuild import rebuild_table
from tidemark.service.repair import repair_tables
from tidemark.service.run import run_pipeline
from tidemark.service.savepoints import make_savepoint, restore_savepoint
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings
from tidemark.stream import lock

_DISK_MEGABYTES = 600
_MOST_PARTITIONS = 4


class PipelineEngine:
    """The services of the commands, in this process."""

    def add(self, world: World, path: Path) -> int:
        site, _ = world.files[path]
        return import_files(
            [str(path)], Options(kafka=world.settings.kafka, site=site, say=lambda text: None)
        ).added

    def settle(self, world: World) -> None:
        """Kafka knows what was imported, whatever has become of the tables."""

    def catch_up(self, world: World) -> None:
        run_pipeline(world.settings, once=True)

    def rebuild(self, world: World, table: str) -> None:
        rebuild_table(world.settings, table, None, dry_run=False, report=lambda tables, done, total: None)

    def repair(self, world: World) -> None:
        repair_tables(world.settings, lambda step: None)

    def save(self, world: World, name: str) -> None:
        make_savepoint(world.settings, name)

    def restore(self, world: World, name: str) -> None:
        restore_savepoint(world.settings, name, None, None, other_key=False)

    def forget(self, world: World, address: str) -> None:
        forget_visitor(world.settings, visitor="", address=address)

    def maintain(self, world: World) -> None:
        maintain_tables(world.settings)


@dataclass(kw_only=True)
class KafkaWorld(World):
    """A world whose home reads from the embedded broker of another home."""

    broker_home: Settings
    has_disk: bool = False


def play_actions(
    seed: int,
    actions: int,
    broker: Settings,
    directory: Path,
    say: Say = lambda text: None,
    *,
    processes: bool = True,
) -> Counter[str]:
    """Plays a number of random actions in a home on the embedded broker of the home `broker`, a new one or one that an
    earlier version made, compares every table at checkpoints and at the end, and returns how often each action was
    done. Without `processes`, those that start a JVM of their own are left out. Raises AssertionError where a table
    differs or an error does not help."""
    chance = random.Random(seed)
    kept = chance.choice(["", *KEPT]) if not broker.lakehouse.tables_location else ""
    with ExitStack() as stack:
        has_disk = _mounted(stack, directory / "home")
        batch_lines = chance.choice([300, 1_000, 3_000])
        sent: list[Delivery] = []
        if kept:
            settings, sent = unpack(kept, broker, directory, batch_lines=batch_lines)
        else:
            settings = fresh(broker, directory, batch_lines=batch_lines)
        pairs, repeated = delivered_once(sent)
        say(f"a home of {kept or 'today'}")
        world = KafkaWorld(
            PipelineEngine(),
            settings,
            directory,
            chance,
            traffic(seed, lines=200 * actions + 4_000, rate=20),
            pairs,
            repeated,
            broker_home=broker.changed(bootstrap_servers=""),
            has_disk=has_disk,
        )
        with reading(settings) as answered:
            done = play(world, {**_WITHIN, **(_PROCESSES if processes else {})}, actions, say)
        say(answered.text())
        AdminClient(kafka.client_config(settings.kafka)).delete_topics([settings.kafka.topic])
        return done


def _mounted(stack: ExitStack, place: Path) -> bool:
    try:
        stack.enter_context(small_disk(place, _DISK_MEGABYTES))
    except pytest.skip.Exception:
        return False
    return True


# Actions.


def send_live(world: KafkaWorld) -> None:
    """Lines of a shipper."""
    lines = world.next_lines()
    produce(world.settings, lines)
    world.sent += lines


def add_partition(world: KafkaWorld) -> str:
    topic = world.settings.kafka.topic
    count = len(kafka.end_offsets(world.settings.kafka, topic)) + 1
    if count > _MOST_PARTITIONS:
        return "enough"
    client = AdminClient(kafka.client_config(world.settings.kafka))
    for answer in client.create_partitions([NewPartitions(topic, count)]).values():
        answer.result(20)
    assert wait_until(lambda: len(kafka.end_offsets(world.settings.kafka, topic)) == count, 60)
    world.settings = world.settings.changed(topic_partitions=count)
    return f"{count} partitions"


def fork(world: KafkaWorld) -> str:
    """A second home, made of a savepoint, ends with the same tables."""
    there = _forked(world)
    return shared.compare(there) if there else "no savepoint"


def mask(world: KafkaWorld) -> str:
    """A second home applies a stricter privacy mode to its history: every figure stays. Kafka's records, which both
    homes share, are deleted, so they must be in the first home, and its savepoints can no longer catch up."""
    shared.catch_up(world)
    if not (there := _forked(world)):
        return "no savepoint"
    shared.compare(there)
    shared.delete_savepoints(world)
    there.others = {**world.others, "privacy": {"mode": "masked"}}
    shared.declare(there)
    there.engine.rebuild(there, "all")
    return shared.compare(there)


def expire(world: KafkaWorld) -> str:
    """A second home deletes its lines, which are older than a month: every figure stays, also when it is made anew."""
    if not (there := _forked(world)):
        return "no savepoint"
    shared.catch_up(there)
    there.others = {**world.others, "retention": {"lines": "30d"}}
    shared.declare(there)
    maintain_tables(there.settings, at_once=True)
    # A line without a time leaves by when it arrived.
    assert len(rows(there.settings, "bronze.access_log", ["offset"])) < len(world.sent) / 2
    lines = shared.compare(there, without=("bronze.access_log", "silver.rejected"))
    there.engine.rebuild(there, "all")
    shared.compare(there, without=("bronze.access_log", "silver.rejected"))
    return lines


def _forked(world: KafkaWorld) -> World | None:
    """A world of a second home, made of a savepoint of the first; None if there is none."""
    if not (kept := savepoints(world.settings)):
        return None
    into = world.settings.changed(home=world.directory / "fork")
    shutil.rmtree(into.home, ignore_errors=True)
    if root := into.lakehouse.tables_location:
        into = into.changed(tables_location=world.chance.choice(["", f"{root}-{uuid.uuid4().hex[:8]}"]))
    restore_savepoint(world.settings, world.chance.choice(kept).name, into, None, other_key=False)
    return replace(world, settings=into, lines=[], files={})


def second_pipeline(world: KafkaWorld) -> str:
    with lock.only_one(world.settings), pytest.raises(HomeBusyError) as refused:
        run_pipeline(world.settings, once=True)
    return str(refused.value)


def restart_broker(world: KafkaWorld) -> str:
    """Nodes are killed, and started again at their addresses."""
    killed = kill_broker(world.broker_home, world.chance)
    revive(world.broker_home, world.settings.kafka.bootstrap_servers)
    return f"{killed} of {world.broker_home.broker.nodes} nodes"


def fill_disk(world: KafkaWorld) -> str:
    """The disk is full during a run, and has room again."""
    if not world.has_disk:
        return "no disk of its own"
    send_live(world)
    fill(world.settings.home, leave=world.chance.choice([0, 10_000, 300_000]))
    try:
        run_pipeline(world.settings, once=True)
        outcome = "nothing to write"
    except TidemarkError as error:
        outcome = explained(error)
    except OSError as error:  # one line of the command
        if error.errno != errno.ENOSPC:
            raise
        outcome = str(error)
    finally:
        make_room(world.settings.home)
    return outcome


def kill_run(world: KafkaWorld) -> str:
    """The live pipeline, killed at any moment, as a whole or only its Java process."""
    send_live(world)
    elsewhere = world.settings.lakehouse.tables_location
    moment = world.chance.choice(
        [
            f"{world.chance.choice(POINTS)}@1",
            world.chance.choice([file for file in FILES if not (elsewhere and ":tables/" in file)]),
            f"after:{world.chance.uniform(0, 3):.1f}",
        ]
    )
    process = start_pipeline(world.settings, moment)
    if world.chance.random() < 0.3:
        return _kill_java(world, process)
    killed = kill_at(world.settings, process, moment, patience=25)
    if killed == "ended by itself":
        _assert_explained(process.communicate()[0], process.returncode)
    return f"{moment}: {killed}"


def kill_rebuild(world: KafkaWorld) -> str:
    """A rebuild, killed while it works or while it puts its tables in place."""
    point = f"{world.chance.choice(HISTORY_POINTS)}@1"
    call = [sys.executable, "-m", "tidemark", "rebuild", "silver.requests"]
    environment = {**os.environ, **world.settings.environment(), "TIDEMARK_CRASH_AT": point}
    done = processes.run(call, env=environment, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode != -signal.SIGKILL:
        _assert_explained(done.stderr, done.returncode)
    return f"{point}: status {done.returncode}"


def run_short_of_files(world: KafkaWorld) -> str:
    """A run that may open few files."""
    send_live(world)
    most = world.chance.choice([64, 128, 256, 512])
    call = [
        "sh",
        "-c",
        f'ulimit -n {most} && exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "tidemark",
        "run",
        "--once",
    ]
    environment = {**os.environ, **world.settings.environment()}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False, timeout=300)
    _assert_explained(done.stderr, done.returncode)
    return f"{most} files: status {done.returncode}, {done.stderr.strip().splitlines()[-1:]}"


def run_with_another_clock(world: KafkaWorld) -> str:
    """A run that takes the time of day for an hour earlier or later."""
    send_live(world)
    seconds = world.chance.choice([-3600, -300, 300, 3600])
    clock = SteppingClock.of(world.directory)
    clock.set(seconds)
    process = run_process(world.settings, **clock.environment)
    output, _ = process.communicate(timeout=300)
    _assert_explained(output, process.returncode)
    return f"{seconds} s: status {process.returncode}"


def kill_import(world: KafkaWorld) -> str:
    """An import, killed, then repeated."""
    path = world.new_file(2_000)
    killed = killed_import(world, str(path), world.files[path][0])
    world.engine.add(world, path)
    return killed


# Each action with its weight: those within this process, and those that start and kill another one.
_WITHIN: Mapping[Action, int] = {
    shared.import_new: 8,
    shared.import_appended: 5,
    shared.import_again: 4,
    import_objects: 3,
    ingest: 3,
    send_live: 6,
    shared.catch_up: 10,
    shared.compare: 4,
    shared.rebuild: 4,
    shared.declare_goal: 1,
    shared.change_hosts: 2,
    shared.change_gap: 1,
    shared.change_formats: 1,
    shared.change_proxies: 1,
    add_partition: 1,
    shared.save: 3,
    shared.restore: 3,
    fork: 1,
    mask: 1,
    expire: 1,
    shared.forget: 1,
    shared.maintain: 4,
    shared.report: 4,
    second_pipeline: 1,
    restart_broker: 2,
    fill_disk: 2,
}
_PROCESSES: Mapping[Action, int] = {
    kill_run: 8,
    kill_rebuild: 3,
    kill_import: 4,
    run_short_of_files: 1,
    run_with_another_clock: 1,
}


def _kill_java(world: KafkaWorld, process: subprocess.Popen[str]) -> str:
    def java() -> int:
        return java_of(process.pid) if process.poll() is None else 0

    wait_until(lambda: process.poll() is not None or java() > 0, 60)
    time.sleep(world.chance.uniform(0, 8))
    if pid := java():
        os.kill(pid, signal.SIGKILL)
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"goes on without its Java process: {process.communicate()[0]}") from None
    if process.returncode != -signal.SIGKILL:  # the moment of its own came first
        _assert_explained(output, process.returncode)
    return f"Java killed: {output.splitlines()[-1] if output else ''}"


def _assert_explained(output: str, status: int) -> None:
    assert status in (0, 1) and "Traceback" not in output, (status, output)
