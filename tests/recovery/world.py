"""Random actions over one home: a seed decides who does what in which order, and every table equals a recount.

After every action either it was done, or an error said what to do. What an error says is then done, so that remedies
that lead in a circle are found, too.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from click.testing import CliRunner

from tests.pipeline.declared_goals import CONDITIONS, GOALS
from tests.pipeline.harness import assert_equal
from tests.pipeline.recount import recount
from tests.recovery.killing import Pair, declaring
from tidemark.cli import tidemark
from tidemark.contract.graph import Graph
from tidemark.contract.table import Table
from tidemark.errors import TidemarkError
from tidemark.operate.backfill import settings_progress
from tidemark.operate.savepoints import delete, savepoints
from tidemark.pipeline import TABLES, Pipeline
from tidemark.settings import Settings
from tidemark.traffic.site import HOST

# No line of the traffic is like this.
OWN_FORMAT = {"semicolons": {"layout": "$time;$client_ip;$method;$target;$status;$bytes", "detected": True}}
# More remedies in a row are a circle.
_MOST_REMEDIES = 6

Say = Callable[[str], None]


class Engine(Protocol):
    """What makes the tables of a world. Each method raises TidemarkError."""

    def add(self, world: World, path: Path) -> int:
        """Imports a file of the world, and returns the number of new lines."""

    def settle(self, world: World) -> None:
        """Ends what was interrupted, so that the next import adds the lines of its file alone."""

    def catch_up(self, world: World) -> None:
        """Makes the tables of everything that was sent, and fills history that they lack."""

    def rebuild(self, world: World, table: str) -> None: ...

    def repair(self, world: World) -> None: ...

    def save(self, world: World, name: str) -> None: ...

    def restore(self, world: World, name: str) -> None:
        """Goes back to a savepoint. `catch_up` then adds what came after it."""

    def forget(self, world: World, address: str) -> None: ...

    def maintain(self, world: World) -> None: ...


@dataclass
class World:
    """A home, what was done to it, and the lines that its tables must have by now.

    `files` has the site and the lines of each file that was imported, `goals` the names of those declared, `others` the
    other tables of `tidemark.toml`, `proxies` those that the site shop trusts. `repeated` lines came again with their
    ids. A new file has `most_lines` at most. The home has these `tables`.
    """

    engine: Engine
    settings: Settings
    directory: Path
    chance: random.Random
    lines: list[Pair]
    sent: list[Pair] = field(default_factory=list)
    repeated: int = 0
    files: dict[Path, tuple[str, list[bytes]]] = field(default_factory=dict)
    goals: tuple[str, ...] = ()
    hosts: Mapping[str, list[str]] = field(default_factory=dict)
    gap: int = 1800
    most_lines: int = 400
    proxies: str | int | list[str] = "auto"
    others: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    tables: Sequence[Table] = TABLES

    def next_lines(self, most: int = 0) -> list[Pair]:
        """Lines that nobody has sent yet, of any time of the traffic."""
        count = min(self.chance.randint(1, most or self.most_lines), len(self.lines))
        return [self.lines.pop(self.chance.randrange(len(self.lines))) for _ in range(count)]

    def new_file(self, most: int = 0) -> Path:
        """A file of one site, its lines in any order."""
        site, lines = self.chance.choice(["default", "shop"]), [line for _, line in self.next_lines(most)]
        path = self.directory / f"{len(self.files)}.log"
        self.files[path] = (site, lines)
        write(path, lines)
        self.sent += [(site, line) for line in lines]
        return path


# Returns what was done, for the log.
Action = Callable[[World], str | None]


def play(world: World, choices: Mapping[Action, int], number: int, say: Say) -> Counter[str]:
    """Plays a number of random actions, by their weights, and compares every table in the end. Returns how often each
    was done. Raises AssertionError where a table differs or an error does not help."""
    import_new(world)
    done: Counter[str] = Counter()
    for count in range(1, number + 1):
        act = world.chance.choices(list(choices), list(choices.values()))[0]
        began = time.monotonic()
        try:
            outcome = act(world) or "done"
        except TidemarkError as error:
            outcome = explained(error)
        done[act.__name__] += 1
        say(f"{count} {act.__name__}: {outcome} ({time.monotonic() - began:.1f} s)")
    compare(world)
    return done


def explained(error: TidemarkError) -> str:
    assert error.remedy, f"no remedy in: {error}"
    assert "`tidemark repair`" not in error.remedy, f"nothing was damaged: {error}"
    return str(error)


def remedied(world: World, act: Callable[[], None], followed: list[str] | None = None) -> str:
    """Does what the errors of an action say until it succeeds. Returns the remedies, those `followed` before
    included."""
    followed = [] if followed is None else followed
    while (error := _error_of(act)) is not None:
        assert len(followed) < _MOST_REMEDIES, f"the remedies lead in a circle: {followed}, {error}"
        text, remedy = _remedy(world, error)
        followed.append(text)
        remedied(world, remedy, followed)
    return f"after {', '.join(followed)}" if followed else "no error"


def _error_of(act: Callable[[], None]) -> TidemarkError | None:
    try:
        act()
    except TidemarkError as error:
        return error
    return None


def _remedy(world: World, error: TidemarkError) -> tuple[str, Callable[[], None]]:
    """The text of a remedy, and what it asks for."""
    engine = world.engine
    remedies: Mapping[str, Callable[[str], None]] = {
        r"`tidemark rebuild (\S+)`": partial(engine.rebuild, world),
        r"`tidemark (repair)`": lambda _: engine.repair(world),
        r"`tidemark savepoint restore ([^\s`]+)`": partial(engine.restore, world),
        r"(run --once)": lambda _: engine.catch_up(world),
        r"(?i)(start again)": lambda _: None,
    }
    for pattern, remedy in remedies.items():
        if match := re.search(pattern, error.remedy):
            return match[0], partial(remedy, match[1])
    raise AssertionError(f"no remedy that a program can follow: {error}")


def write(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines))


# Actions.


def import_new(world: World) -> str:
    settle(world)
    path = world.new_file()
    lines = world.files[path][1]
    _import(world, path, len(lines))
    return f"{len(lines)} lines"


def import_appended(world: World) -> str:
    """A file that has gained lines since."""
    settle(world)
    path = world.chance.choice(list(world.files))
    site, lines = world.files[path]
    more = [line for _, line in world.next_lines()]
    lines += more
    write(path, lines)
    world.sent += [(site, line) for line in more]
    _import(world, path, len(more))
    return f"{len(more)} lines"


def import_again(world: World) -> None:
    """A file that was imported already, under another name, compressed or not."""
    settle(world)
    path = world.chance.choice(list(world.files))
    again = world.directory / (f"again-{path.name}" + world.chance.choice(["", ".gz"]))
    content = path.read_bytes()
    again.write_bytes(gzip.compress(content) if again.suffix == ".gz" else content)
    world.files[again] = world.files[path]
    try:
        _import(world, again, 0)
    finally:
        del world.files[again]


def settle(world: World) -> None:
    remedied(world, lambda: world.engine.settle(world))


def catch_up(world: World) -> str:
    """Also applies settings to history that the pipeline leaves to a command, which it names."""

    def act() -> None:
        world.engine.catch_up(world)
        if reason := settings_progress(Pipeline.of(world.settings)).get("reason"):
            raise TidemarkError("history lacks changed settings", reason)

    return remedied(world, act)


def compare(world: World, without: Collection[object] = ()) -> str:
    """A checkpoint: every table equals the recount, but those `without` lines."""
    remedies = catch_up(world)
    expected = recount(
        world.sent, world.gap, hosts=world.hosts, goals={name: CONDITIONS[name] for name in world.goals}
    )
    lacking = {table.name for table in TABLES} - {table.name for table in world.tables}
    assert_equal(world.settings, expected, world.repeated, without={*without, *lacking})
    return f"{len(world.sent):,} lines are in every table; {remedies}"


def rebuild(world: World) -> str:
    table = world.chance.choice(["all", *Graph(tuple(world.tables)).rebuildable])
    world.engine.rebuild(world, table)
    return table


def declare_goal(world: World) -> str:
    """One goal more, which history then has, too."""
    world.goals = tuple(GOALS)[: len(world.goals) + 1]
    declare(world)
    return ", ".join(world.goals)


def change_hosts(world: World) -> str:
    world.hosts = {} if world.hosts else {"shop": [HOST]}
    declare(world)
    return "own hosts" if world.hosts else "no own hosts"


def change_formats(world: World) -> str:
    """An own format that no line of the traffic has: they are validated by other rules, to the same rows."""
    world.others = {**world.others, "formats": {} if world.others.get("formats") else OWN_FORMAT}
    declare(world)
    return "an own format" if world.others["formats"] else "no own format"


def change_proxies(world: World) -> str:
    """Trusted proxies, which no line of the traffic names."""
    world.proxies = "auto" if world.proxies != "auto" else world.chance.choice([1, ["192.0.2.0/24"]])
    declare(world)
    return f"trusted proxies: {world.proxies}"


def change_gap(world: World) -> str:
    """The next run refuses, and names the rebuild."""
    world.gap = world.chance.choice([600, 1200, 1800])
    world.settings = world.settings.changed(session_gap_seconds=world.gap)
    return f"{world.gap} s"


def save(world: World) -> None:
    world.engine.save(world, f"at-{len(savepoints(world.settings))}")


def restore(world: World) -> str:
    if not (kept := savepoints(world.settings)):
        return "no savepoint"
    name = world.chance.choice(kept).name
    world.engine.restore(world, name)
    return name


def delete_savepoints(world: World) -> None:
    for each in savepoints(world.settings):
        remedied(world, partial(delete, world.settings, each.name))


def forget(world: World, address: str = "") -> str:
    """All lines of an address, also in what is counted: savepoints would bring them back, and figures of days keep
    them until a rebuild."""
    catch_up(world)
    address = address or any_address(world)
    delete_savepoints(world)
    remedied(world, lambda: world.engine.forget(world, address))
    world.engine.rebuild(world, "all")
    whole = re.compile(rb"(?<![\w.:])" + re.escape(address.encode()) + rb"(?![\w.:])")
    world.sent = [pair for pair in world.sent if not whole.search(pair[1])]
    return address


def any_address(world: World) -> str:
    """An address that lines came from, unless all were forgotten or have none."""
    addresses = [line.split()[0].decode() for _, line in world.sent if line[:1].isdigit()]
    return world.chance.choice(addresses) if addresses else "192.0.2.1"


def maintain(world: World) -> None:
    world.engine.maintain(world)


def report(world: World) -> str:
    """A reader between two runs."""
    arguments = ["report", world.chance.choice(["overview", "pages", "goals"]), "--json"]
    asked = CliRunner().invoke(tidemark, [*arguments, "--home", str(world.settings.home)])
    if isinstance(asked.exception, TidemarkError):
        raise asked.exception
    assert asked.exit_code == 0, asked.exception
    return f"{len(json.loads(asked.stdout))} figures"


def _import(world: World, path: Path, added: int) -> None:
    counts: list[int] = []
    remedied(world, lambda: counts.append(world.engine.add(world, path)))
    assert counts == [added], (path, counts, added)


def declare(world: World) -> None:
    """Writes the declarations of the world into its `tidemark.toml`."""
    goals = {name: GOALS[name][0].declared for name in world.goals}
    sites: dict[str, dict[str, object]] = {site: {"hosts": names} for site, names in world.hosts.items()}
    if world.proxies != "auto":
        sites["shop"] = {**sites.get("shop", {}), "trusted_proxies": world.proxies}
    world.settings = declaring(world.settings, {"goals": goals, "sites": sites, **world.others})
