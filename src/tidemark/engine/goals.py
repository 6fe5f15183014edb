"""Goals that each session reaches, and matches that wait for their session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Change
from tidemark.engine.arrays import Flags, flags_of
from tidemark.engine.groups import Groups, Numbers, decoded, encoded, whole
from tidemark.engine.intervals import OfSessions, changed, micros, run_numbers, session_ids
from tidemark.engine.sessions import CONTENT, VIEW_COLUMNS, intervals_of, joined
from tidemark.figures.declared import Goal

_TEXT = ("site", "visitor_id", *CONTENT)
_TIME = pa.timestamp("us", tz="UTC")
_GOALS = pa.list_(pa.string())
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXT),
        ("start_time", _TIME), ("end_time", _TIME), ("pageviews", pa.int64()), ("goals", _GOALS),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class SessionGoals(OfSessions):
    """The goals of each session, as texts of `named`.

    A match belongs to its visitor's session with start <= time < end + gap. One that is no pageview, and has no such
    session yet, is a row of its own without pageviews, until a session comes that takes it. A session only grows, so
    what it has taken stays. There are no rows without `goals`.
    """

    goals: Mapping[str, Goal] = field(default_factory=dict)

    needs = (*VIEW_COLUMNS, "bot", "status", "method", "search_term")
    # Text that others have encoded is only decoded if there are goals.
    encodes = ()

    @property
    def identity(self) -> Mapping[str, str]:
        # A goal that is new or changed is a new name, and then the table lacks its history.
        goals = {f"goal {named(name, goal)}": "matched" for name, goal in self.goals.items()}
        return {**super().identity, "entry": ", ".join(CONTENT)} | goals

    def partial(self, rows: pa.Table) -> pa.Table:
        """Intervals of the pageviews, and matches that are none: the table's columns without `session_id`."""
        if not self.goals or not rows.num_rows:
            return _SCHEMA.empty_table()
        rows = decoded(rows.filter(pc.invert(rows["bot"])))
        rows = rows.append_column("goals", goals_matched(self.goals, rows))
        view, any_goal = rows["pageview"], pc.greater(pc.list_value_length(rows["goals"]), 0)
        views, others = rows.filter(view), rows.filter(pc.and_(pc.invert(view), any_goal))
        intervals = _intervals({**_columns(views), **intervals_of(views)}, views.num_rows)
        times = {"start_time": others["event_time"], "end_time": others["event_time"]}
        none = pa.repeat(pa.scalar(0, pa.int64()), others.num_rows)
        loose = _intervals({**_columns(others), **times, "pageviews": none}, others.num_rows)
        return self.merge(pa.concat_tables([intervals, loose]))

    def merge(self, partials: pa.Table) -> pa.Table:
        partials = partials.combine_chunks()
        is_view = pc.greater(partials["pageviews"], 0)
        views = partials.filter(is_view).combine_chunks()
        sessions, sweep = joined(views, self.gap_seconds, CONTENT)
        inside = views.select(["goals"]).take(pa.array(sweep.order))
        loose = partials.filter(pc.invert(is_view))
        owner = self._owner(sessions, loose)
        taken = loose.filter(pa.array(owner >= 0))
        goals = _united(
            np.append(
                np.repeat(sweep.session, _lengths(inside)), np.repeat(owner[owner >= 0], _lengths(taken))
            ),
            pa.chunked_array([*inside["goals"].chunks, *taken["goals"].chunks], _GOALS),
            sessions.num_rows,
        )
        sessions = sessions.set_column(sessions.column_names.index("goals"), "goals", goals)
        return pa.concat_tables([sessions, _together(loose.filter(pa.array(owner < 0)))])

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The changed rows, and the ids of those that sessions took."""
        own = existing.select(_SCHEMA.names).cast(_SCHEMA)
        merged = self.merge(pa.concat_tables([own, partials.select(_SCHEMA.names).cast(_SCHEMA)]))
        rows = merged.append_column("session_id", session_ids(merged))
        return changed(existing, rows, ["pageviews", "goals"])

    def _owner(self, sessions: pa.Table, loose: pa.Table) -> Numbers:
        """The session of each match, -1 if it has none."""
        names = ["site", "visitor_id", "start_time", "kind"]
        both = pa.concat_tables(
            [
                part.select(names[:3]).append_column("kind", pa.repeat(kind, part.num_rows))
                for part, kind in ((sessions, 0), (loose, 1))
            ]
        )
        order = pc.sort_indices(both, sort_keys=[(name, "ascending") for name in names]).to_numpy()
        ordered = both.take(pa.array(order))
        visitor, start = run_numbers(ordered, ("site", "visitor_id")), micros(ordered["start_time"])
        match = order >= sessions.num_rows
        last = np.maximum.accumulate(np.where(match, -1, np.arange(len(order))))
        there = match & (last >= 0)
        there[there] = visitor[last[there]] == visitor[there]
        end = np.append(micros(sessions["end_time"]), 0)
        there[there] = start[there] - end[order[last[there]]] < self.gap_seconds * 1_000_000
        owner = np.full(loose.num_rows, -1)
        owner[order[there] - sessions.num_rows] = order[last[there]]
        return owner


def named(name: str, goal: Goal) -> str:
    """A goal in `goals`: its definition, a space and its name."""
    return f"{goal.definition} {name}"


def goals_matched(goals: Mapping[str, Goal], rows: pa.Table) -> pa.ListArray:
    """The goals, as `named`, that each row of a person matches."""
    paths = encoded(rows["path"])
    matching = [matches(goal, rows, paths) for goal in goals.values()]
    row, goal = (
        np.nonzero(np.stack(matching, axis=1)) if matching and rows.num_rows else (np.zeros(0, int),) * 2
    )
    names = pa.array([named(name, goal) for name, goal in goals.items()], pa.string())
    offsets = np.searchsorted(row, np.arange(rows.num_rows + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(goal)))


def matches(goal: Goal, rows: pa.Table, paths: pa.DictionaryArray) -> Flags:
    """The rows of people that match a goal; `paths` is their column `path`."""
    if goal.search:
        held = pc.is_valid(whole(rows["search_term"]))
    elif goal.download:
        endings = "|".join(re.escape(each.lstrip(".")) for each in goal.download)
        held = _like(paths, rf"(?is)\.({endings})\z")
    else:
        pattern = ".*".join(re.escape(part) for part in goal.path.split("*"))
        held = _like(paths, rf"(?s)\A{pattern}\z")
        if goal.status:
            held = pc.and_(held, pc.equal(whole(rows["status"]), goal.status))
        if goal.method:
            held = pc.and_(held, pc.equal(whole(rows["method"]), goal.method))
    if goal.site:
        held = pc.and_(held, pc.equal(whole(rows["site"]), goal.site))
    return flags_of(pc.fill_null(held, False))


def _columns(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: rows[name] for name in ("site", "visitor_id", "goals")}


def _intervals(columns: Mapping[str, pa.ChunkedArray | pa.Array], rows: int) -> pa.Table:
    """Rows of _SCHEMA; columns that are not given are NULL."""
    return pa.table({name: columns.get(name, pa.nulls(rows, pa.string())) for name in _SCHEMA.names}).cast(
        _SCHEMA
    )


def _like(paths: pa.DictionaryArray, pattern: str) -> pa.Array:
    return pc.match_substring_regex(paths.dictionary, pattern).take(paths.indices)


def _lengths(rows: pa.Table) -> Numbers:
    return np.asarray(pc.list_value_length(rows["goals"]))


def _united(group: Numbers, goals: pa.ChunkedArray, number: int) -> pa.ListArray:
    """One list for each of `number` groups: its goals in order, each once."""
    names = encoded(pc.list_flatten(goals))
    rank = np.empty(len(names.dictionary), np.int64)
    rank[pc.sort_indices(names.dictionary).to_numpy()] = np.arange(len(rank))
    ordered = names.dictionary.take(pc.sort_indices(names.dictionary))
    pairs = np.unique(group * max(1, len(rank)) + rank[names.indices.to_numpy()])
    of, goal = np.divmod(pairs, max(1, len(rank)))
    offsets = np.searchsorted(of, np.arange(number + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), ordered.take(pa.array(goal)).cast(pa.string()))


def _together(loose: pa.Table) -> pa.Table:
    """Matches of one visitor at the same time as one row."""
    groups = Groups.by([loose[name] for name in ("site", "visitor_id", "start_time")])
    goals = _united(np.repeat(groups.of, _lengths(loose)), loose["goals"], len(groups))
    first = loose.take(pa.array(groups.first))
    return first.set_column(first.column_names.index("goals"), "goals", goals)
