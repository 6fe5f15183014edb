"""Completions: requests of people that match a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.engine.goals import goals_matched, named
from tidemark.engine.groups import decoded
from tidemark.figures.declared import Goal


@dataclass(frozen=True)
class Completions(WindowedCounts):
    """Counts of the matches of goals, by goal and definition: rows of an earlier definition stay as they are until the
    history of the goal is recomputed."""

    goals: Mapping[str, Goal] = field(default_factory=dict)

    @classmethod
    def of(cls, seconds: int, goals: Mapping[str, Goal]) -> Completions:
        return cls(
            seconds=seconds,
            by=(Text("goal"), Text("definition")),
            sums={"completions": ROWS},
            visitors="none",
            goals=goals,
        )

    @property
    def needs(self) -> tuple[str, ...]:
        return ("site", "event_time", "bot", "path", "status", "method", "search_term")

    @property
    def encodes(self) -> tuple[str, ...]:
        return ("path",)

    @property
    def identity(self) -> Mapping[str, str]:
        return {
            **super().identity,
            **{f"goal {named(name, goal)}": "matched" for name, goal in self.goals.items()},
        }

    def partial(self, rows: pa.Table) -> pa.Table:
        people = rows.filter(pc.invert(rows["bot"])) if self.goals else rows.slice(0, 0)
        paths = people["path"]
        plain = decoded(people.drop_columns(["path"])).append_column("path", paths)
        matched = goals_matched(self.goals, plain)
        texts = pc.list_flatten(matched)
        each = plain.select(["site", "event_time"]).take(pc.list_parent_indices(matched))
        parts = pc.split_pattern(texts, " ", max_splits=1)
        each = each.append_column("goal", pc.list_element(parts, 1))
        return super().partial(each.append_column("definition", pc.list_element(parts, 0)))
