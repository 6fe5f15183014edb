"""Conversions: sessions with a match of a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Change
from tidemark.engine.counts import ROWS, Text
from tidemark.engine.goals import named
from tidemark.engine.revisions import RevisedCounts
from tidemark.figures.declared import Goal


@dataclass(frozen=True)
class Conversions(RevisedCounts):
    """Counts of the sessions with a goal, of rows made by `SessionGoals`. `definitions` are those of the goals by name.

    Matches of other definitions do not count: they stay until the history of the goal is recomputed.
    """

    definitions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, seconds: int, goals: Mapping[str, Goal]) -> Conversions:
        return cls(
            seconds=seconds,
            time="start_time",
            by=(Text("goal"), Text("channel")),
            sums={"conversions": ROWS},
            rows="conversions",
            visitors="all",
            definitions=tuple((name, named(name, goal)) for name, goal in sorted(goals.items())),
        )

    @property
    def needs(self) -> tuple[str, ...]:
        return ("site", "start_time", "visitor_id", "channel", "pageviews", "goals")

    @property
    def encodes(self) -> tuple[str, ...]:
        return ()

    @property
    def identity(self) -> Mapping[str, str]:
        return {**super().identity, **dict(self.definitions)}

    def partial(self, rows: pa.Table) -> pa.Table:
        sessions = rows.filter(pc.greater(rows["pageviews"], 0))
        goals = pc.list_flatten(sessions["goals"])
        each = sessions.drop_columns(["goals"]).take(pc.list_parent_indices(sessions["goals"]))
        known = pa.array([text for _, text in self.definitions], pa.string())
        names = pa.array([name for name, _ in self.definitions], pa.string())
        place = pc.index_in(goals, known)
        each = each.append_column("goal", names.take(place)).filter(pc.is_valid(place))
        return self._counts.partial(each.select(list(self._counts.needs)))

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        change = super().combine(existing, partials)
        hashes = {name: text.split(" ", 1)[0] for name, text in self.definitions}
        definitions = pa.array(
            [hashes.get(name, "") for name in change.rows["goal"].to_pylist()], pa.string()
        )
        return replace(change, rows=change.rows.append_column("definition", definitions))

    @property
    def _counts(self) -> RevisedCounts:
        """The counts of rows with one `goal` each."""
        return RevisedCounts(self.seconds, self.sums, self.by, visitors="all", time=self.time, rows=self.rows)
