"""Sessions as intervals that merge, so the order of arrival does not matter.

A session is one visitor's pageviews on one site with gaps shorter than a limit. Whether two pageviews share a session
depends only on the pageviews between them. So sessions of any parts of the pageviews, merged if they are closer
than the limit, equal those of one pass over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.store import Condition
from tidemark.contract.table import Change
from tidemark.engine.groups import Numbers


def sessions_of(ordered: pa.Table, gap_seconds: int) -> tuple[Numbers, Numbers]:
    """The first interval of each session, and the number of each interval's session.

    `ordered` are intervals (`start_time`, `end_time`) by `site`, `visitor_id` and start. This is a sweep over all
    intervals of a visitor.
    """
    start, end = micros(ordered["start_time"]), micros(ordered["end_time"])
    visitor = run_numbers(ordered, ("site", "visitor_id"))
    # The latest end so far within each visitor: an increasing offset per visitor allows one running
    # maximum for all visitors. Uses ranks instead of times, whose offsets would overflow.
    ends, rank = np.unique(end, return_inverse=True)
    offset = visitor * len(ends)
    reach = ends[np.maximum.accumulate(rank + offset) - offset]
    first = np.ones(len(start), dtype=bool)
    first[1:] = (visitor[1:] != visitor[:-1]) | (start[1:] - reach[:-1] >= gap_seconds * 1_000_000)
    return np.flatnonzero(first), np.cumsum(first) - 1


def near(intervals: pa.Table, gap_seconds: int) -> list[list[Condition]]:
    """Conditions of the sessions with which the intervals may merge; none without intervals."""
    if not intervals.num_rows:
        return []
    gap = timedelta(seconds=gap_seconds)
    first = pc.min(intervals["start_time"]).as_py() - gap
    last = pc.max(intervals["end_time"]).as_py() + gap
    visitors = pc.unique(intervals["visitor_id"]).to_pylist()
    return [[("end_time", ">=", first), ("start_time", "<=", last), ("visitor_id", "in", visitors)]]


def session_ids(sessions: pa.Table) -> list[str]:
    """The ids of sessions with these sites, visitors and starts."""
    starts = micros(sessions["start_time"]).tolist()
    keys = zip(sessions["site"].to_pylist(), sessions["visitor_id"].to_pylist(), starts, strict=True)
    return [session_id(*key) for key in keys]


def session_id(site: str, visitor_id: str, start_us: int) -> str:
    """Id of the session with this start: 32 hex digits, independent of the order of arrival."""
    return blake2b(f"{site}\0{visitor_id}\0{start_us}".encode(), digest_size=16).hexdigest()


def changed(existing: pa.Table, rows: pa.Table, names: Sequence[str]) -> Change:
    """Rows that are new or differ from existing ones in one of the columns, apart from `updated_at`, and the ids that
    disappeared. Lists only differ in their length."""
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
