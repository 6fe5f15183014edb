"""Sessions as intervals that merge, so the order of arrival does not matter.

A session is one visitor's pageviews on one site with gaps shorter than a limit. Whether two pageviews share a session
depends only on the pageviews between them. So sessions of any parts of the pageviews, merged if they are closer
than the limit, equal those of one pass over all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest, stamped
from tidemark.contract.store import Where
from tidemark.contract.table import Change
from tidemark.engine.groups import Numbers, encoded


@dataclass(frozen=True)
class OfSessions:
    """Base of the aggregations of sessions. Sessions of one visitor merge if they are closer than `gap_seconds`."""

    gap_seconds: int

    window_seconds = None

    @property
    def identity(self) -> Mapping[str, str]:
        return {"gap": f"{self.gap_seconds} s"}

    def at(self, newest: Newest) -> Self:
        return self

    def touched(self, partials: pa.Table) -> Where:
        """Conditions of the sessions with which the intervals may merge; none without intervals."""
        if not partials.num_rows:
            return []
        gap = timedelta(seconds=self.gap_seconds)
        first = pc.min(partials["start_time"]).as_py() - gap
        last = pc.max(partials["end_time"]).as_py() + gap
        visitors = pc.unique(partials["visitor_id"]).to_pylist()
        return [[("end_time", ">=", first), ("start_time", "<=", last), ("visitor_id", "in", visitors)]]


@dataclass(frozen=True)
class Sweep:
    """Intervals by visitor and start: the row of each in this `order`, the number of each one's `session`, and the
    place in the order of each session's first one, `heads`."""

    order: Numbers
    session: Numbers
    heads: Numbers

    @property
    def first(self) -> pa.Array:
        """The row of each session's first interval."""
        return pa.array(self.order[self.heads])


def swept(intervals: pa.Table, gap_seconds: int, content: Sequence[str] = ()) -> Sweep:
    """The sessions of intervals (`site`, `visitor_id`, `start_time`, `end_time`), by a sweep over all intervals of each
    visitor. The columns `content` decide which of several intervals with the same start is first, NULLs first."""
    if not intervals.num_rows:
        return Sweep(*(np.zeros(0, np.int64) for _ in range(3)))
    visitor, start = _visitors(intervals), micros(intervals["start_time"])
    order = ordered(visitor, start, partial(_places, intervals, content) if content else None)
    visitor, start = visitor[order], start[order]
    latest = _latest(visitor, micros(intervals["end_time"])[order])
    first = np.ones(len(start), dtype=bool)
    first[1:] = (visitor[1:] != visitor[:-1]) | (start[1:] - latest[:-1] >= gap_seconds * 1_000_000)
    return Sweep(order, np.cumsum(first) - 1, np.flatnonzero(first))


def ordered(owner: Numbers, time: Numbers, places: Callable[[Numbers], Numbers] | None = None) -> Numbers:
    """The order of rows by owner (a number) and time. `places` returns, for the numbers of rows that share both with
    another row, their places in the order that decides then; without it, their order is not defined."""
    least, width = _range(owner, time)
    if not width:
        _, time = np.unique(time, return_inverse=True)
        least, width = 0, len(time)
    # One number for both sorts several times as fast as two.
    key = owner * width + (time - least)
    order = np.argsort(key)
    if places is None:
        return order
    key = key[order]
    equal = key[1:] == key[:-1]
    same = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    if len(same):
        rows = order[same]
        order[same] = rows[np.lexsort((places(rows), key[same]))]
    return order


def _places(rows: pa.Table, names: Sequence[str], some: Numbers) -> Numbers:
    """The place of each of some rows in their order by these columns, NULLs first."""
    order = nulls_first(rows.select(list(names)).take(pa.array(some)), names).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def _latest(visitor: Numbers, end: Numbers) -> Numbers:
    """The latest end so far within each visitor. An offset that grows with the visitor allows one running maximum."""
    least, width = _range(visitor, end)
    if width:
        offset = visitor * width - least
        latest: Numbers = np.maximum.accumulate(end + offset) - offset
        return latest
    ends, rank = np.unique(end, return_inverse=True)
    offset = visitor * len(ends)
    by_rank: Numbers = ends[np.maximum.accumulate(rank + offset) - offset]
    return by_rank


def _range(owner: Numbers, time: Numbers) -> tuple[int, int]:
    """The least time, and how many there are up to the greatest; 0 if one number cannot tell owner and time."""
    least, width = int(time.min()), int(time.max()) - int(time.min()) + 1
    return least, width if (int(owner.max()) + 2) * width + abs(least) < 2**63 else 0


def _visitors(rows: pa.Table) -> Numbers:
    """A number for the site and visitor of each row."""
    site, visitor = (encoded(rows[name]) for name in ("site", "visitor_id"))
    visitors: Numbers = (
        site.indices.to_numpy().astype(np.int64) * len(visitor.dictionary) + visitor.indices.to_numpy()
    )
    return visitors


def session_ids(
    sessions: pa.Table, first: pa.Array | None = None, known: pa.ChunkedArray | None = None
) -> pa.Array:
    """The ids of sessions with these sites, visitors and starts. With `first`, the row of each one's first interval:
    the first rows of all are sessions whose ids are `known`."""
    number = 0 if known is None else len(known)
    row = np.full(sessions.num_rows, number) if first is None else first.to_numpy()
    new = np.flatnonzero(row >= number)
    others = sessions.select(["site", "visitor_id", "start_time"]).take(pa.array(new))
    starts = micros(others["start_time"]).tolist()
    keys = zip(others["site"].to_pylist(), others["visitor_id"].to_pylist(), starts, strict=True)
    ids = pa.array([session_id(*key) for key in keys], pa.string())
    place = row.copy()
    place[new] = number + np.arange(len(new))
    return pa.concat_arrays([*([] if known is None else known.cast(pa.string()).chunks), ids]).take(
        pa.array(place)
    )


def session_id(site: str, visitor_id: str, start_us: int) -> str:
    """Id of the session with this start: 32 hex digits, independent of the order of arrival."""
    return blake2b(f"{site}\0{visitor_id}\0{start_us}".encode(), digest_size=16).hexdigest()


def changed(existing: pa.Table, rows: pa.Table, names: Sequence[str]) -> Change:
    """Rows, to which `updated_at` is added, that are new or differ from existing ones in one of the other columns
    `names`, and the ids that disappeared. Lists only differ in their length."""
    rows = stamped(rows).select(existing.schema.names).cast(existing.schema)
    if not existing.num_rows:
        return Change(rows, existing)
    place = pc.index_in(rows["session_id"], existing["session_id"])
    before = existing.take(place)
    same = pc.is_valid(place)
    for name in names:
        if name != "updated_at":
            now, was = rows[name], before[name]
            if pa.types.is_list(now.type):
                now, was = pc.list_value_length(now), pc.list_value_length(was)
            neither = pc.and_(pc.is_null(now), pc.is_null(was))
            same = pc.and_(same, pc.or_(neither, pc.fill_null(pc.equal(now, was), False)))
    gone = pc.invert(pc.is_in(existing["session_id"], rows["session_id"]))
    return Change(rows.filter(pc.invert(same)), existing.filter(gone))


def nulls_first(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Indices that sort `rows` by columns, ascending. An additional sort key puts NULLs first, because pyarrow
    25 replaced the option for the position of NULLs, and runtimes have older versions.
    """
    keys = {}
    for number, name in enumerate(names):
        if rows[name].null_count:
            keys[f"{number} valid"] = pc.is_valid(rows[name])
        keys[f"{number}"] = rows[name]
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def micros(times: pa.ChunkedArray) -> Numbers:
    """Times as microseconds since the epoch."""
    return np.asarray(times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))


def run_numbers(ordered: pa.Table, names: tuple[str, ...]) -> Numbers:
    """Numbers the runs of equal values in an ordered frame: 0, 0, 1, 2, 2, …"""
    changes = np.zeros(ordered.num_rows, dtype=bool)
    for name in names:
        codes = ordered[name].combine_chunks().dictionary_encode().indices.to_numpy()
        changes[1:] |= codes[1:] != codes[:-1]
    return np.cumsum(changes)
