"""Random actions over one home: a seed decides who does what in which order, and every table equals a recount.

After every action either it was done, or an error said what to do. What an error says is then done, so that remedies
that lead in a circle are found, too.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.pipeline.declared_goals import CONDITIONS, GOALS
from tests.pipeline.harness import assert_equal, fresh, produce
from tests.pipeline.recount import recount
from tests.recovery.ground import fill, make_room, small_disk
from tests.recovery.killing import (
    FILES,
    HISTORY_POINTS,
    POINTS,
    Pair,
    declaring,
    java_of,
    kill_at,
    revive,
    start_pipeline,
    traffic,
)
from tidemark.cli import tidemark
from tidemark.errors import HomeBusyError, TidemarkError
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.local import broker as embedded
from tidemark.local.process import wait_until
from tidemark.operate.savepoints import delete, savepoints
from tidemark.pipeline import Pipeline
from tidemark.service.forget import forget_visitor
from tidemark.service.rebuild import rebuild_table
from tidemark.service.repair import repair_tables
from tidemark.service.run import run_pipeline
from tidemark.service.savepoints import make_savepoint, restore_savepoint
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings
from tidemark.stream import lock
from tidemark.traffic.site import HOST

_DISK_MEGABYTES = 600
# More remedies in a row are a circle.
_MOST_REMEDIES = 6
_MOST_PARTITIONS = 4

Say = Callable[[str], None]


@dataclass
class World:
    """A home, what was done to it, and the lines that its tables must have by now.

    `files` has the site and the lines of each file that was imported, `goals` the names of those declared.
    """

    settings: Settings
    broker_home: Settings
    directory: Path
    chance: random.Random
    lines: list[Pair]
    has_disk: bool = False
    sent: list[Pair] = field(default_factory=list)
    files: dict[Path, tuple[str, list[bytes]]] = field(default_factory=dict)
    goals: tuple[str, ...] = ()
    hosts: Mapping[str, list[str]] = field(default_factory=dict)
    gap: int = 1800

    def next_lines(self, most: int = 400) -> list[Pair]:
        """Lines that nobody has sent yet, of any time of the traffic."""
        count = min(self.chance.randint(1, most), len(self.lines))
        return [self.lines.pop(self.chance.randrange(len(self.lines))) for _ in range(count)]


# Returns what was done, for the log.
Action = Callable[[World], str | None]


def play_actions(
    seed: int,
    actions: int,
    broker: Settings,
    directory: Path,
    say: Say = lambda text: None,
    *,
    processes: bool = True,
) -> Counter[str]:
    """Plays a number of random actions in a new home on the embedded broker of the home `broker`, compares every table
    at checkpoints and at the end, and returns how often each action was done. Without `processes`, those that start a
    JVM of their own are left out. Raises AssertionError where a table differs or an error does not help."""
    chance = random.Random(seed)
    settings = fresh(broker, directory, batch_lines=chance.choice([300, 1_000, 3_000]))
    with ExitStack() as stack:
        has_disk = _mounted(stack, settings.home)
        broker_home = broker.changed(bootstrap_servers="")
        world = World(
            settings,
            broker_home,
            directory,
            chance,
            traffic(seed, lines=60 * actions + 1_000, rate=20),
            has_disk,
        )
        import_new(world)
        done: Counter[str] = Counter()
        choices = {**_WITHIN, **(_PROCESSES if processes else {})}
        for number in range(1, actions + 1):
            act = chance.choices(list(choices), list(choices.values()))[0]
            began = time.monotonic()
            try:
                outcome = act(world) or "done"
            except TidemarkError as error:
                outcome = _explained(error)
            done[act.__name__] += 1
            say(f"{number} {act.__name__}: {outcome} ({time.monotonic() - began:.1f} s)")
        compare(world)
        AdminClient(kafka.client_config(settings.kafka)).delete_topics([settings.kafka.topic])
        return done


def _mounted(stack: ExitStack, place: Path) -> bool:
    try:
        stack.enter_context(small_disk(place, _DISK_MEGABYTES))
    except pytest.skip.Exception:
        return False
    return True


# Actions.


def import_new(world: World) -> str:
    """A file of one site, its lines in any order."""
    site, lines = world.chance.choice(["default", "shop"]), [line for _, line in world.next_lines()]
    path = world.directory / f"{len(world.files)}.log"
    world.files[path] = (site, lines)
    _write(path, lines)
    _import(world, path, len(lines))
    world.sent += [(site, line) for line in lines]
    return f"{len(lines)} lines"


def import_appended(world: World) -> str:
    """A file that has gained lines since."""
    path = world.chance.choice(list(world.files))
    site, lines = world.files[path]
    more = [line for _, line in world.next_lines()]
    lines += more
    _write(path, lines)
    _import(world, path, len(more))
    world.sent += [(site, line) for line in more]
    return f"{len(more)} lines"


def import_again(world: World) -> None:
    """A file that was imported already, under another name, compressed or not."""
    path = world.chance.choice(list(world.files))
    again = world.directory / (f"again-{path.name}" + world.chance.choice(["", ".gz"]))
    content = path.read_bytes()
    again.write_bytes(gzip.compress(content) if again.suffix == ".gz" else content)
    world.files[again] = world.files[path]
    _import(world, again, 0)
    del world.files[again]


def send_live(world: World) -> None:
    """Lines of a shipper."""
    lines = world.next_lines()
    produce(world.settings, lines)
    world.sent += lines


def run_once(world: World) -> str:
    return _run(world)


def compare(world: World) -> str:
    """A checkpoint: every table equals the recount."""
    remedies = _run(world)
    expected = recount(
        world.sent, world.gap, hosts=world.hosts, goals={name: CONDITIONS[name] for name in world.goals}
    )
    assert_equal(world.settings, expected)
    return f"{len(world.sent):,} lines are in every table; {remedies}"


def rebuild(world: World) -> str:
    table = world.chance.choice(["all", *Pipeline.of(world.settings).graph.rebuildable])
    _rebuild(world.settings, table)
    return table


def declare_goal(world: World) -> str:
    """One goal more, which history then has, too."""
    world.goals = tuple(GOALS)[: len(world.goals) + 1]
    _declare(world)
    return ", ".join(world.goals)


def change_hosts(world: World) -> str:
    world.hosts = {} if world.hosts else {"shop": [HOST]}
    _declare(world)
    return "own hosts" if world.hosts else "no own hosts"


def change_gap(world: World) -> str:
    """The next run refuses, and names the rebuild."""
    world.gap = world.chance.choice([600, 1200, 1800])
    world.settings = world.settings.changed(session_gap_seconds=world.gap)
    return f"{world.gap} s"


def add_partition(world: World) -> str:
    topic = world.settings.kafka.topic
    count = len(kafka.end_offsets(world.settings.kafka, topic)) + 1
    if count > _MOST_PARTITIONS:
        return "enough"
    client = AdminClient(kafka.client_config(world.settings.kafka))
    for answer in client.create_partitions([NewPartitions(topic, count)]).values():
        answer.result(20)
    assert wait_until(lambda: len(kafka.end_offsets(world.settings.kafka, topic)) == count, 10)
    world.settings = world.settings.changed(topic_partitions=count)
    return f"{count} partitions"


def save(world: World) -> None:
    make_savepoint(world.settings, f"at-{len(savepoints(world.settings))}")


def restore(world: World) -> str:
    """Kafka still has what came after the savepoint."""
    if not (kept := savepoints(world.settings)):
        return "no savepoint"
    name = world.chance.choice(kept).name
    restore_savepoint(world.settings, name, None, None, other_key=False)
    return name


def fork(world: World) -> str:
    """A second home, made of a savepoint, ends with the same tables."""
    if not (kept := savepoints(world.settings)):
        return "no savepoint"
    into = world.settings.changed(home=world.directory / "fork")
    shutil.rmtree(into.home, ignore_errors=True)
    restore_savepoint(world.settings, world.chance.choice(kept).name, into, None, other_key=False)
    there = World(into, world.broker_home, world.directory, world.chance, [], sent=world.sent)
    there.goals, there.hosts, there.gap = world.goals, world.hosts, world.gap
    return compare(there)


def forget(world: World) -> str:
    """All lines of an address, also in what is counted: savepoints would bring them back, and figures of days keep
    them until a rebuild."""
    _run(world)
    address = world.chance.choice(world.sent)[1].split()[0]
    for each in savepoints(world.settings):
        delete(world.settings, each.name)
    forget_visitor(world.settings, visitor="", address=address.decode())
    _rebuild(world.settings, "all")
    whole = re.compile(rb"(?<![\w.:])" + re.escape(address) + rb"(?![\w.:])")
    world.sent = [pair for pair in world.sent if not whole.search(pair[1])]
    return address.decode()


def maintain(world: World) -> None:
    maintain_tables(world.settings)


def report(world: World) -> str:
    """A reader between two runs."""
    arguments = ["report", world.chance.choice(["overview", "pages", "goals"]), "--json"]
    asked = CliRunner().invoke(tidemark, [*arguments, "--home", str(world.settings.home)])
    if isinstance(asked.exception, TidemarkError):
        raise asked.exception
    assert asked.exit_code == 0, asked.exception
    return f"{len(json.loads(asked.stdout))} figures"


def second_pipeline(world: World) -> str:
    with lock.only_one(world.settings), pytest.raises(HomeBusyError) as refused:
        run_pipeline(world.settings, once=True)
    return str(refused.value)


def restart_broker(world: World) -> None:
    """Killed, and started again at its address."""
    running = embedded.status(world.broker_home)
    assert running is not None, "the broker has ended by itself"
    os.kill(running.pid, signal.SIGKILL)
    assert wait_until(lambda: embedded.status(world.broker_home) is None, 20)
    revive(world.broker_home, world.settings.kafka.bootstrap_servers)


def fill_disk(world: World) -> str:
    """The disk is full during a run, and has room again."""
    if not world.has_disk:
        return "no disk of its own"
    send_live(world)
    fill(world.settings.home, leave=world.chance.choice([0, 10_000, 300_000]))
    try:
        run_pipeline(world.settings, once=True)
        outcome = "nothing to write"
    except TidemarkError as error:
        outcome = _explained(error)
    except OSError as error:  # one line of the command
        if error.errno != errno.ENOSPC:
            raise
        outcome = str(error)
    finally:
        make_room(world.settings.home)
    return outcome


def kill_run(world: World) -> str:
    """The live pipeline, killed at any moment, as a whole or only its Java process."""
    send_live(world)
    moment = world.chance.choice(
        [
            f"{world.chance.choice(POINTS)}@1",
            world.chance.choice(FILES),
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


def kill_rebuild(world: World) -> str:
    """A rebuild, killed while it works or while it puts its tables in place."""
    point = f"{world.chance.choice(HISTORY_POINTS)}@1"
    call = [sys.executable, "-m", "tidemark", "rebuild", "silver.requests"]
    environment = {**os.environ, **world.settings.environment(), "TIDEMARK_CRASH_AT": point}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode != -signal.SIGKILL:
        _assert_explained(done.stderr, done.returncode)
    return f"{point}: status {done.returncode}"


def kill_import(world: World) -> str:
    """An import, killed, then repeated."""
    site, lines = "default", [line for _, line in world.next_lines(2_000)]
    path = world.directory / f"{len(world.files)}.log"
    world.files[path] = (site, lines)
    _write(path, lines)
    call = [sys.executable, "-m", "tidemark", "import", str(path)]
    environment = {**os.environ, **world.settings.environment()}
    process = subprocess.Popen(call, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    delay = world.chance.uniform(0.5, 3)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _import(world, path)
    world.sent += [(site, line) for line in lines]
    return f"after {delay:.1f} s"


# Each action with its weight: those within this process, and those that start and kill another one.
_WITHIN: Mapping[Action, int] = {
    import_new: 8,
    import_appended: 5,
    import_again: 4,
    send_live: 6,
    run_once: 10,
    compare: 4,
    rebuild: 4,
    declare_goal: 1,
    change_hosts: 2,
    change_gap: 1,
    add_partition: 1,
    save: 3,
    restore: 3,
    fork: 1,
    forget: 1,
    maintain: 4,
    report: 4,
    second_pipeline: 1,
    restart_broker: 2,
    fill_disk: 2,
}
_PROCESSES: Mapping[Action, int] = {kill_run: 8, kill_rebuild: 3, kill_import: 4}


def _write(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def _import(world: World, path: Path, added: int | None = None) -> None:
    site, _ = world.files[path]
    done = import_files([str(path)], Options(kafka=world.settings.kafka, site=site, say=lambda text: None))
    assert added is None or done.added == added, (path, done, added)


def _declare(world: World) -> None:
    goals = {name: GOALS[name][0].declared for name in world.goals}
    sites = {site: {"hosts": names} for site, names in world.hosts.items()}
    world.settings = declaring(world.settings, {"goals": goals, "sites": sites})


def _rebuild(settings: Settings, table: str) -> None:
    rebuild_table(settings, table, None, dry_run=False, report=lambda tables, done, total: None)


def _run(world: World) -> str:
    """Runs the pipeline until it has caught up, and does what its errors say."""
    followed: list[str] = []
    while True:
        try:
            run_pipeline(world.settings, once=True)
            return f"after {', '.join(followed)}" if followed else "no error"
        except TidemarkError as error:
            followed.append(_follow(world, error, followed))


def _explained(error: TidemarkError) -> str:
    assert error.remedy, f"no remedy in: {error}"
    return str(error)


def _follow(world: World, error: TidemarkError, followed: Sequence[str]) -> str:
    assert len(followed) < _MOST_REMEDIES, f"the remedies lead in a circle: {followed}, {error}"
    for pattern, remedy in (
        (r"`tidemark rebuild (\S+)`", lambda name: _rebuild(world.settings, name)),
        (r"`tidemark (repair)`", lambda _: repair_tables(world.settings, lambda step: None)),
        (
            r"`tidemark savepoint restore (\S+)`",
            lambda name: restore_savepoint(world.settings, name, None, None, other_key=False),
        ),
        (r"(start again)", lambda _: None),
    ):
        if found := re.search(pattern, error.remedy, re.IGNORECASE):
            remedy(found[1])
            return found[0]
    raise AssertionError(f"no remedy that a program can follow: {error}")


def _kill_java(world: World, process: subprocess.Popen[str]) -> str:
    def java() -> int:
        return java_of(process.pid) if process.poll() is None else 0

    wait_until(lambda: process.poll() is not None or java() > 0, 20)
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
