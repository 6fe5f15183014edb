"""The tables `[goals.NAME]`, `[funnels.NAME]` and `[segments.NAME]` of `tidemark.toml`: what is asked of the tables.

`tidemark.figures.declared` reads funnels and segments from the file, too; both accept the same forms.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemark.errors import SettingError
from tidemark.settings.tables import tables_of

SCOPES = ("visitor", "session")
FEWEST_STEPS, MOST_STEPS = 2, 8


@dataclass(frozen=True)
class GoalSettings:
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
        """What is set, as in the file."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True)
class FunnelSettings:
    """`steps`: patterns of paths, or `goal:NAME` of a goal that is a page. `scope`: visitor or session. `within`: the
    time that a visitor has from the first step, such as 24h."""

    steps: tuple[str, ...] = ()
    scope: str = "visitor"
    within: str = "24h"


@dataclass(frozen=True)
class SegmentSettings:
    """A named filter: conditions such as `device=mobile`, all of which must hold."""

    filter: tuple[str, ...] = ()


def told(goals: Mapping[str, GoalSettings]) -> str:
    """The goals as JSON, with their definitions: which matches the rows of tables have."""
    found = {name: {"definition": goal.definition, **goal.declared} for name, goal in goals.items()}
    return json.dumps(found, sort_keys=True)


def goals_of(found: Any, source: str) -> dict[str, GoalSettings]:
    """The tables `[goals.NAME]` of a file. Raises SettingError."""
    goals = {
        name: GoalSettings(**values)
        for name, values in tables_of("goals", found, GoalSettings, source).items()
    }
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


def funnels_of(found: Any, source: str) -> dict[str, FunnelSettings]:
    """The tables `[funnels.NAME]` of a file. Raises SettingError."""
    funnels = {
        name: FunnelSettings(**values)
        for name, values in tables_of("funnels", found, FunnelSettings, source).items()
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


def segments_of(found: Any, source: str) -> dict[str, SegmentSettings]:
    """The tables `[segments.NAME]` of a file. Raises SettingError."""
    return {
        name: SegmentSettings(**values)
        for name, values in tables_of("segments", found, SegmentSettings, source).items()
    }
