"""Event patterns as data, and the pure matcher to which they compile.

A pattern is a sequence of steps that events of one key match within a time limit. Other events may lie between two
steps. A step may be required several times. An event may be forbidden between two steps, or after
the last one until the time limit. `examples.kit.pattern_stream` runs patterns over a stream.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidemark.errors import SettingError

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, wanted: value in wanted,
    "not in": lambda value, wanted: value not in wanted,
    "matches": lambda value, wanted: re.search(wanted, value) is not None,
}


@dataclass(frozen=True)
class Where:
    """A condition on one field of an event; it is false for a missing field. `matches` searches text for a regular
    expression."""

    field: str
    op: str
    value: Any

    def __post_init__(self) -> None:
        if self.op not in OPERATORS:
            raise SettingError(f"unknown operator {self.op!r}", f"Use one of {', '.join(OPERATORS)}.")

    def holds(self, event: Mapping[str, Any]) -> bool:
        value = event.get(self.field)
        return value is not None and OPERATORS[self.op](value, self.value)


@dataclass(frozen=True)
class Step:
    """`times` events that fulfil all conditions; with `absent`, none of them."""

    name: str
    where: tuple[Where, ...]
    times: int = 1
    absent: bool = False

    def fits(self, event: Mapping[str, Any]) -> bool:
        return all(condition.holds(event) for condition in self.where)


@dataclass(frozen=True)
class Pattern:
    """Steps that events of one key match in order, the last at most `within_ms` after the first.

    An absent step forbids its events between its neighbours; as the last step it forbids them until
    `within_ms` have passed, when the match is complete. Raises SettingError for an invalid pattern.
    """

    name: str
    steps: tuple[Step, ...]
    within_ms: int

    def __post_init__(self) -> None:
        absent = [step.absent for step in self.steps]
        if not self.steps or absent[0] or any(a and b for a, b in pairwise(absent)):
            raise SettingError(
                f"pattern {self.name!r} must start with an event, and two absent steps need one between them",
                "Join neighbouring absent steps or move the first one.",
            )
        if self.within_ms <= 0 or any(step.times < 1 for step in self.steps):
            raise SettingError(f"pattern {self.name!r} has a time or a number below 1", "Correct it.")

    @property
    def fields(self) -> set[str]:
        """Fields of an event that the conditions use."""
        return {condition.field for step in self.steps for condition in step.where}


def pattern_of(data: Mapping[str, Any]) -> Pattern:
    """A pattern from plain data, such as a TOML table:

    `{"name": …, "within_seconds": …, "steps": [{"name": …, "where": [[field, operator, value], …],
    "times": …, "absent": …}, …]}`; `times` and `absent` may be left out. Raises SettingError.
    """
    try:
        steps = tuple(
            Step(
                str(step["name"]),
                tuple(Where(field, op, value) for field, op, value in step["where"]),
                int(step.get("times", 1)),
                bool(step.get("absent", False)),
            )
            for step in data["steps"]
        )
        return Pattern(str(data["name"]), steps, round(float(data["within_seconds"]) * 1000))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(f"this is no pattern: {error!r} in {data!r}", "See pattern_of.") from error


@dataclass(frozen=True)
class Event:
    """One event of a key: event time in ms, an id, and the fields that conditions use."""

    time: int
    id: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Match:
    """A match: start and completion (ms), and the ids of its events in order."""

    pattern: str
    started: int
    completed: int
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A started match: number of events, start, and their ids."""

    taken: int
    started: int
    ids: tuple[str, ...]


class Matcher:
    """Finds a pattern in the events of one key, given in order of time.

    Every event that matches the first step starts a run. An event that matches a run's next step advances it; others
    are ignored. Of two runs that wait for the same event, the later one can complete whenever the earlier
    can, so only the later one is kept: there are never more runs than events in the pattern. (An
    absent last step is an exception, because an earlier start also means an earlier end: there every run is kept.)
    A match ends all runs, so no event is part of two matches of one pattern.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._wanted = [step for step in pattern.steps if not step.absent for _ in range(step.times)]
        self._forbidden: dict[int, Step] = {}
        taken = 0
        for step in pattern.steps:
            if step.absent:
                self._forbidden[taken] = step
            else:
                taken += step.times
        self._trailing = pattern.steps[-1].absent

    def feed(self, runs: Sequence[Run], events: Iterable[Event]) -> tuple[list[Run], list[Match]]:
        """The runs after these events, and the matches that they complete. Events are in order of time and not
        earlier than previous ones."""
        kept, matches = list(runs), []
        for event in events:
            kept, ended = self.expire(kept, event.time)
            matches += ended
            kept, completed = self._take(kept, event)
            matches += completed
        return kept, matches

    def expire(self, runs: Sequence[Run], now: int) -> tuple[list[Run], list[Match]]:
        """Ends the runs whose time limit was before `now` (ms). Those that only waited for an absent step
        have matched."""
        kept = [run for run in runs if self.deadline(run) >= now]
        over = [run for run in runs if self.deadline(run) < now and run.taken == len(self._wanted)]
        if not over:
            return kept, []
        first = min(over, key=lambda run: run.started)
        return [], [self._match(first, self.deadline(first))]

    def deadline(self, run: Run) -> int:
        return run.started + self.pattern.within_ms

    def _take(self, runs: Sequence[Run], event: Event) -> tuple[list[Run], list[Match]]:
        complete = len(self._wanted)
        after: list[Run] = []
        started = Run(0, event.time, ())
        for run in (*runs, started):
            forbidden = self._forbidden.get(run.taken)
            if forbidden and forbidden.fits(event.fields):
                continue
            if run.taken < complete and self._wanted[run.taken].fits(event.fields):
                taken = Run(run.taken + 1, run.started, (*run.ids, event.id))
                if taken.taken == complete and not self._trailing:
                    return [], [self._match(taken, event.time)]
                after.append(taken)
            elif run is not started:
                after.append(run)
        return after if self._trailing else _latest(after), []

    def _match(self, run: Run, completed: int) -> Match:
        return Match(self.pattern.name, run.started, completed, run.ids)


def _latest(runs: Sequence[Run]) -> list[Run]:
    """Of runs that wait for the same event, the one that started last."""
    latest: dict[int, Run] = {}
    for run in sorted(runs, key=lambda run: run.started):
        latest[run.taken] = run
    return list(latest.values())
