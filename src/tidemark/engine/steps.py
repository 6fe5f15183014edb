"""The first pageviews of each session, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Change
from tidemark.engine.arrays import plain
from tidemark.engine.groups import decoded, encoded, whole
from tidemark.engine.intervals import OfSessions, Sweep, changed, micros, nulls_first, ordered, session_ids
from tidemark.engine.sessions import joined
from tidemark.figures.silver import MOST_STEPS

_INTERVAL = ("site", "visitor_id", "start_time", "end_time", "pageviews", "steps")
_STEP = pa.struct([("time", pa.timestamp("us", tz="UTC")), ("path", pa.string())])


@dataclass(frozen=True)
class SessionSteps(OfSessions):
    """The first MOST_STEPS pageviews of each session as (time, path), by time, then path.

    The first steps of merged sessions are the first ones of their steps.
    """

    needs = ("site", "visitor_id", "event_time", "path", "pageview")
    encodes = ("site", "visitor_id", "path")

    @property
    def identity(self) -> Mapping[str, str]:
        return {**super().identity, "steps": f"at most {MOST_STEPS}"}

    def partial(self, rows: pa.Table) -> pa.Table:
        """The sessions of these pageviews alone: the table's columns without `session_id`."""
        views = decoded(rows.filter(rows["pageview"]))
        step = pa.StructArray.from_arrays(
            [whole(views["event_time"]).cast(_STEP[0].type), whole(views["path"]).cast(pa.string())],
            fields=list(_STEP),
        )
        own = {
            "start_time": views["event_time"],
            "end_time": views["event_time"],
            "pageviews": pa.repeat(pa.scalar(1, pa.int64()), views.num_rows),
            "steps": pa.ListArray.from_arrays(pa.array(np.arange(views.num_rows + 1), pa.int32()), step),
        }
        columns = own | {name: views[name] for name in ("site", "visitor_id")}
        return self.merge(pa.table({name: columns[name] for name in _INTERVAL}))

    def merge(self, partials: pa.Table) -> pa.Table:
        return self._merged(partials)[0]

    def _merged(self, intervals: pa.Table) -> tuple[pa.Table, Sweep]:
        intervals = intervals.combine_chunks()
        sessions, sweep = joined(intervals.drop_columns(["steps"]), self.gap_seconds)
        if not intervals.num_rows:
            return intervals, sweep
        return sessions.append_column("steps", _first_steps(whole(intervals["steps"]), sweep)), sweep

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The changed sessions, and the ids that disappeared in merges. A session changes if it gains pageviews."""
        own = existing.select(list(_INTERVAL))
        both = pa.concat_tables([own, partials.select(list(_INTERVAL)).cast(own.schema)])
        merged, sweep = self._merged(both)
        ids = session_ids(merged, sweep.first, existing["session_id"])
        return changed(existing, merged.append_column("session_id", ids), ["pageviews"])


def _first_steps(lists: pa.ListArray, sweep: Sweep) -> pa.ListArray:
    """One list for each session: the first of the steps of its intervals' lists, which are in order themselves."""
    steps, lengths = lists.flatten(), pc.list_value_length(lists).to_numpy().astype(np.int64)
    starts, lengths = (np.cumsum(lengths) - lengths)[sweep.order], lengths[sweep.order]
    ends = np.cumsum(lengths)
    place = np.arange(len(steps)) + np.repeat(starts - (ends - lengths), lengths)
    session = np.repeat(sweep.session, lengths)
    times, paths = micros(steps.field("time")), encoded(steps.field("path"))
    rank = np.empty(len(paths.dictionary), np.int64)
    rank[nulls_first(pa.table({"path": paths.dictionary}), ["path"]).to_numpy()] = np.arange(len(rank))
    ranks = rank[paths.indices.to_numpy()]
    time, path = times[place], ranks[place]
    # Intervals of one session may overlap, but few do.
    back = (time[1:] < time[:-1]) | ((time[1:] == time[:-1]) & (path[1:] < path[:-1]))
    back &= session[1:] == session[:-1]
    if back.any():
        mixed = np.zeros(len(sweep.heads), bool)
        mixed[session[1:][back]] = True
        among = np.flatnonzero(mixed[session])
        rows = place[among]
        place[among] = rows[ordered(session[among], times[rows], lambda some: ranks[rows[some]])]
    number = np.bincount(session, minlength=len(sweep.heads))
    begin = np.cumsum(number) - number
    kept = place[np.arange(len(place)) - begin[session] < MOST_STEPS]
    offsets = np.append(0, np.cumsum(np.minimum(number, MOST_STEPS))).astype(np.int32)
    taken = pa.StructArray.from_arrays(
        [pa.array(times[kept]).cast(_STEP[0].type), plain(paths.take(pa.array(kept))).cast(pa.string())],
        fields=list(_STEP),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), taken)
