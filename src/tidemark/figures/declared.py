"""Goals, funnels, segments, alert rules and sites that the home's `tidemark.toml` declares; edit.py writes it.

The pipeline reads the same tables of the file; what it does not use, it only checks for its form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from tidemark.figures.funnels import Definition, Step, duration
from tidemark.figures.selection import Filter, SelectionError, filters_of

FILE = "tidemark.toml"
GOAL = "goal:"
Kind = Literal["goals", "funnels", "segments", "alerts", "sites"]


@dataclass(frozen=True)
class Declared:
    """The tables of the file by kind and name, as they stand there."""

    goals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    funnels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    segments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    alerts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, kind: Kind) -> Mapping[str, Mapping[str, Any]]:
        """The tables of a kind."""
        found: Mapping[str, Mapping[str, Any]] = getattr(self, kind)
        return found

    def funnel(self, name: str) -> Definition:
        """A funnel by its name. Raises SelectionError."""
        values = _named(self.funnels, "funnel", name)
        scope = values.get("scope", "visitor")
        if scope not in ("visitor", "session"):
            raise SelectionError(f"funnel {name} has the scope {scope!r}; use visitor or session")
        return self.built(
            [str(step) for step in values.get("steps", ())], scope, str(values.get("within", "24h"))
        )

    def built(self, steps: Sequence[str], scope: str, within: str) -> Definition:
        """A funnel of these steps, paths or goals. Raises SelectionError."""
        return Definition(tuple(map(self._step, steps)), scope == "visitor", duration(within))

    def segment(self, name: str) -> tuple[Filter, ...]:
        """The filters of a segment. Raises SelectionError."""
        return filters_of([str(text) for text in _named(self.segments, "segment", name).get("filter", ())])

    def _step(self, text: str) -> Step:
        if not text.startswith(GOAL):
            return Step(text, text)
        name = text.removeprefix(GOAL)
        goal = _named(self.goals, "goal", name)
        if not goal.get("path") or goal.get("status") or goal.get("method"):
            raise SelectionError(f"goal {name} is no page, and a step of a funnel must be one")
        return Step(name, str(goal["path"]))


def _named(found: Mapping[str, Mapping[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    if name not in found:
        known = f"; there are {', '.join(sorted(found))}" if found else f"; {FILE} declares none"
        raise SelectionError(f"no {kind} {name!r}{known}")
    return found[name]


def declared(home: Path) -> Declared:
    """What the file of a home declares; nothing without a file. Raises SelectionError."""
    try:
        text = (home / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Declared()
    except (OSError, UnicodeDecodeError) as error:
        raise SelectionError(f"{home / FILE} cannot be read: {error}") from error
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SelectionError(f"{home / FILE} is no valid TOML: {error}") from error
    kinds = {kind: found.get(kind, {}) for kind in get_args(Kind)}
    for kind, tables in kinds.items():
        if not isinstance(tables, dict) or not all(isinstance(values, dict) for values in tables.values()):
            raise SelectionError(f"{home / FILE}: {kind} must be tables; write [{kind}.NAME]")
    return Declared(**kinds)
