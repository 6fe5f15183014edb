"""Goals, funnels, segments and alert rules as the tables of a home's `tidemark.toml` declare them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from tidemark.errors import SettingError
from tidemark.figures.right import Right
from tidemark.figures.selection import Filter, SelectionError, filters_of
from tidemark.figures.toml_tables import MOST_DEFINITIONS, MOST_SECONDS, tables_of, toml_of

FILE = "tidemark.toml"
# Stands before the name of a goal that is a step of a funnel, or the metric of an alert rule.
GOAL = "goal:"
SCOPES = ("visitor", "session")
FEWEST_STEPS, MOST_STEPS = 2, 8
Kind = Literal["goals", "funnels", "segments", "alerts", "sites"]
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class Goal:
    """A goal of one `site` (empty: of every site), reached by a request of a person that matches.

    Either `path`, a pattern of the whole path without query, in which `*` stands for any characters and case matters,
    optionally with `status` (0: any) and `method` (empty: any); or `download`, extensions of paths; or `search`, any
    search on the site.
    """

    path: str = ""
    status: int = 0
    method: str = ""
    download: tuple[str, ...] = ()
    search: bool = False
    site: str = ""

    @property
    def definition(self) -> str:
        """A hash of what a match is."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def declared(self) -> dict[str, Any]:
        """The values that are set, as in the file."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True)
class FunnelTable:
    """`steps`: patterns of paths, or `goal:NAME` of a goal that is a page. `scope`: visitor or session. `within`: the
    time that a visitor has from the first step, such as 24h."""

    steps: tuple[str, ...] = ()
    scope: str = "visitor"
    within: str = "24h"


@dataclass(frozen=True)
class SegmentTable:
    """A named filter: conditions such as `device=mobile`, all of which must hold."""

    filter: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """A step's name and its pattern of paths."""

    name: str
    pattern: str


@dataclass(frozen=True)
class Definition:
    """A funnel: its steps, whether it is of each `visitor` or each session, and the time that a visitor has."""

    steps: tuple[Step, ...]
    visitor: bool = True
    within: timedelta = timedelta(hours=24)

    def __post_init__(self) -> None:
        if not FEWEST_STEPS <= len(self.steps) <= MOST_STEPS:
            raise SelectionError(f"a funnel has {FEWEST_STEPS} to {MOST_STEPS} steps, not {len(self.steps)}")


@dataclass(frozen=True)
class Declared:
    """The tables of the file by kind and name, as they stand there; `source` names the file in errors."""

    tables: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    source: str = FILE

    def of(self, kind: Kind) -> Mapping[str, Mapping[str, Any]]:
        """The tables of a kind."""
        return self.tables.get(kind, {})

    @cached_property
    def goals(self) -> Mapping[str, Goal]:
        """The goals by name. Raises SettingError."""
        return goals_of(self.of("goals"), self.source)

    def funnel(self, name: str) -> Definition:
        """A funnel by its name. Raises SettingError."""
        values = self._named("funnels", "funnel", name)
        table = funnels_of({name: values}, self.source)[name]
        return self.built(table.steps, table.scope, table.within)

    def built(self, steps: Sequence[str], scope: str, within: str) -> Definition:
        """A funnel of these steps, paths or goals. Raises SettingError."""
        return Definition(tuple(map(self._step, steps)), scope == "visitor", duration(within))

    def segment(self, name: str) -> tuple[Filter, ...]:
        """The filters of a segment. Raises SettingError."""
        values = self._named("segments", "segment", name)
        return filters_of(segments_of({name: values}, self.source)[name].filter)

    def _named(self, kind: Kind, one: str, name: str) -> Mapping[str, Any]:
        tables = self.of(kind)
        if name not in tables:
            known = f"; there are {', '.join(sorted(tables))}" if tables else f"; {FILE} declares none"
            raise SelectionError(f"no {one} {name!r}{known}")
        return tables[name]

    def _step(self, text: str) -> Step:
        if not text.startswith(GOAL):
            return Step(text, text)
        name = text.removeprefix(GOAL)
        self._named("goals", "goal", name)
        goal = self.goals[name]
        if not goal.path or goal.status or goal.method:
            raise SelectionError(f"goal {name} is no page, and a step of a funnel must be one")
        return Step(name, goal.path)


def declared(home: Path) -> Declared:
    """The declarations in the file of a home; none without a file. Raises SettingError."""
    path = home / FILE
    file = toml_of(path)
    kinds = {kind: file.get(kind, {}) for kind in get_args(Kind)}
    for kind, tables in kinds.items():
        if not isinstance(tables, dict) or not all(isinstance(values, dict) for values in tables.values()):
            raise SettingError(f"{path}: {kind} must be tables", f"Write [{kind}.NAME].")
    return Declared(kinds, str(path))


def require_usable(tables: Mapping[str, Any], source: str) -> None:
    """Raises SettingError if a funnel or a segment of a file is invalid, such as a funnel with a step that is
    a missing goal."""
    declared = Declared(tables, source)
    for name in declared.of("funnels"):
        declared.funnel(name)
    for name in declared.of("segments"):
        declared.segment(name)


def of_right(known: Declared, right: Right) -> Declared:
    """The declarations for all sites, and those for the sites of a right."""
    if right.sites is None:
        return known
    kept = {
        kind: {
            name: values
            for name, values in tables.items()
            if (name if kind == "sites" else values.get("site", "")) in {"", *right.sites}
        }
        for kind, tables in known.tables.items()
    }
    return replace(known, tables=kept)


def home_in(environment: Mapping[str, str]) -> Path:
    """The home that an environment names, by default .tidemark in the present directory."""
    return expanded(environment.get("TIDEMARK_HOME") or ".tidemark")


def expanded(path: str | Path) -> Path:
    """An absolute path; `~` in front of it is a user's directory. Raises SettingError if that has none."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise SettingError(f"no directory of a user is known for {path}", "Write the whole path.") from error


def duration(text: str) -> timedelta:
    """A time such as 30m, 24h or 7d. Raises SelectionError."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", text)
    if match is None or match[2] not in _UNITS or not int(match[1]):
        raise SelectionError(f"{text!r} is no duration; write 30m, 24h or 7d")
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > MOST_SECONDS:
        raise SelectionError(f"{text!r} is too long", f"Write at most {MOST_SECONDS // 86_400}d.")
    return timedelta(seconds=seconds)


def recorded(goals: Mapping[str, Goal]) -> str:
    """The goals as JSON, with their definitions: a property of the tables whose rows have their matches."""
    values = {name: {"definition": goal.definition, **goal.declared} for name, goal in goals.items()}
    return json.dumps(values, sort_keys=True)


def goals_of(tables: Any, source: str) -> dict[str, Goal]:
    """The tables `[goals.NAME]` of a file. Raises SettingError."""
    values_of = tables_of("goals", tables, Goal, source, most=MOST_DEFINITIONS)
    goals = {name: Goal(**values) for name, values in values_of.items()}
    for name, goal in goals.items():
        if [bool(goal.path), bool(goal.download), goal.search].count(True) != 1:
            raise SettingError(
                f"{source}: goal {name} needs one of path, download and search", "Set exactly one of them."
            )
        if (goal.status or goal.method) and not goal.path:
            raise SettingError(
                f"{source}: goal {name} has a status or a method, but no path", "Set its path, such as `*`."
            )
        if goal.status and not 100 <= goal.status <= 599:
            raise SettingError(f"{source}: status {goal.status} of goal {name}", "Use one from 100 to 599.")
    return goals


def funnels_of(tables: Any, source: str) -> dict[str, FunnelTable]:
    """The tables `[funnels.NAME]` of a file. Raises SettingError."""
    funnels = {
        name: FunnelTable(**values)
        for name, values in tables_of("funnels", tables, FunnelTable, source, most=MOST_DEFINITIONS).items()
    }
    for name, funnel in funnels.items():
        if not FEWEST_STEPS <= len(funnel.steps) <= MOST_STEPS:
            raise SettingError(
                f"{source}: funnel {name} has {len(funnel.steps)} steps",
                f"Name {FEWEST_STEPS} to {MOST_STEPS}.",
            )
        if funnel.scope not in SCOPES:
            raise SettingError(
                f"{source}: unknown scope {funnel.scope!r} of funnel {name}", f"Use {' or '.join(SCOPES)}."
            )
    return funnels


def segments_of(tables: Any, source: str) -> dict[str, SegmentTable]:
    """The tables `[segments.NAME]` of a file. Raises SettingError."""
    return {
        name: SegmentTable(**values)
        for name, values in tables_of("segments", tables, SegmentTable, source, most=MOST_DEFINITIONS).items()
    }
