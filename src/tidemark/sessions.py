"""Sessions as intervals: they merge, so the order in which pageviews arrive does not matter.

A session is one visitor's pageviews on one site with gaps shorter than a limit. A batch's own sessions
are computed by Spark (`sessionize`), or its pageviews taken one by one (`intervals`); `merge` joins them with the
sessions already in the table. Either way gives what one pass over all pageviews would give, because whether two
pageviews share a session depends only on the pageviews between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.table import Change

# What a session takes over from its visitor (constant) or from its entry pageview.
OF_VISITOR = ("country", "browser", "os", "device")
OF_ENTRY = ("channel", "referrer_host")
# NULLs first, as in Spark's minimum of a struct, so that both choose the same entry.
_ENTRY_ORDER = ("site", "visitor_id", "start_time", "entry_page", *OF_ENTRY)


def sessionize(pageviews: DataFrame, gap_seconds: int) -> DataFrame:
    """Sessions among the given pageviews alone, as intervals for `merge`.

    Takes `site`, `visitor_id`, `event_time`, `path` and the columns named above; gives `site`,
    `visitor_id`, `start_time`, `end_time`, `pageviews`, `entry_page`, `exit_page` and those columns.
    Of pageviews at the same time the smallest path is the entry and the largest the exit, so that the
    result does not depend on the order of arrival.
    """
    by_visitor = Window.partitionBy("site", "visitor_id").orderBy("event_time")
    waited = F.unix_micros("event_time") - F.lag(F.unix_micros("event_time")).over(by_visitor)
    starts = F.coalesce(waited >= gap_seconds * 1_000_000, F.lit(True)).cast("int")
    entry = F.min(F.struct("event_time", "path", *OF_ENTRY))
    numbered = pageviews.withColumn("_starts", starts).withColumn(
        "_session", F.sum("_starts").over(by_visitor)
    )
    return (
        numbered.groupBy("site", "visitor_id", "_session")
        .agg(
            entry.alias("_entry"),
            F.max(F.struct("event_time", "path")).alias("_exit"),
            F.count("*").alias("pageviews"),
            *(F.min(name).alias(name) for name in OF_VISITOR),
        )
        .select(
            "site",
            "visitor_id",
            F.col("_entry.event_time").alias("start_time"),
            F.col("_exit.event_time").alias("end_time"),
            "pageviews",
            F.col("_entry.path").alias("entry_page"),
            F.col("_exit.path").alias("exit_page"),
            *OF_VISITOR,
            *(F.col(f"_entry.{name}").alias(name) for name in OF_ENTRY),
        )
    )


def intervals(pageviews: pa.Table) -> pa.Table:
    """Each pageview as an interval of one moment. `merge` makes sessions of them, the same ones as of `sessionize`'s:
    better here for what has been fetched."""
    time, path = pageviews["event_time"], pageviews["path"]
    own = {
        "start_time": time, "end_time": time, "entry_page": path, "exit_page": path,
        "pageviews": pa.repeat(pa.scalar(1, pa.int64()), pageviews.num_rows),
    }  # fmt: skip
    return pa.table(own | {name: pageviews[name] for name in ("site", "visitor_id", *OF_VISITOR, *OF_ENTRY)})


def session_id(site: str, visitor_id: str, start_us: int) -> str:
    """Id of the session that starts then: 32 hex digits, the same however its pageviews arrived."""
    return blake2b(f"{site}\0{visitor_id}\0{start_us}".encode(), digest_size=16).hexdigest()


def merge(
    existing: pa.Table,
    incoming: pa.Table,
    *,
    gap_seconds: int,
    newest: Mapping[str, datetime],
    now: datetime,
) -> Change:
    """Joins a batch's intervals with the sessions that the table has.

    `existing` are rows of the sessions table: all of the incoming visitors that may lie within the gap
    of an incoming interval, and all open ones that `newest` (site -> newest event time) may close.
    `incoming` comes from `sessionize` or `intervals`. Returns the rows that changed, and the ids that merged away.
    """
    columns = [
        "site", "visitor_id", "start_time", "end_time", "pageviews", "entry_page", "exit_page",
        *OF_VISITOR, *OF_ENTRY,
    ]  # fmt: skip
    own = existing.select(columns)
    both = pa.concat_tables([own, incoming.select(columns).cast(own.schema)]).combine_chunks()
    if both.num_rows == 0:
        return Change(existing)
    merged = _join_intervals(both, gap_seconds * 1_000_000)
    rows = _finish(merged, gap_seconds, newest, now, existing.schema)
    return _difference(existing, rows)


def _join_intervals(intervals: pa.Table, gap_us: int) -> pa.Table:
    """One row per session: a sweep over all intervals of a visitor in order of their start."""
    ordered = intervals.take(_nulls_first(intervals, _ENTRY_ORDER))
    start, end = _micros(ordered["start_time"]), _micros(ordered["end_time"])
    visitor = _run_numbers(ordered, ("site", "visitor_id"))

    # The latest end so far within each visitor: adding a growing offset per visitor lets one running
    # maximum serve them all. On ranks rather than times, whose offsets would overflow.
    ends, rank = np.unique(end, return_inverse=True)
    offset = visitor * len(ends)
    reach = ends[np.maximum.accumulate(rank + offset) - offset]
    first = np.ones(len(start), dtype=bool)
    first[1:] = (visitor[1:] != visitor[:-1]) | (start[1:] - reach[:-1] >= gap_us)
    heads = np.flatnonzero(first)
    session = np.cumsum(first) - 1

    by_exit = pc.sort_indices(
        pa.table({"s": session, "end": end, "page": ordered["exit_page"]}),
        sort_keys=[("s", "ascending"), ("end", "ascending"), ("page", "ascending")],
    ).to_numpy()
    tails = by_exit[np.append(heads[1:], len(start)) - 1]

    result = ordered.take(pa.array(heads))
    pageviews = np.add.reduceat(ordered["pageviews"].to_numpy(), heads)
    for name, values in (
        ("end_time", ordered["end_time"].take(pa.array(tails))),
        ("exit_page", ordered["exit_page"].take(pa.array(tails))),
        ("pageviews", pa.array(pageviews)),
    ):
        result = result.set_column(result.column_names.index(name), name, values)
    return result


def _nulls_first(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Indices that sort `rows` by columns, ascending. Whether a value is there is a sort key of its own: pyarrow
    25 replaced the option for the place of NULLs, and runtimes have older ones.
    """
    keys = {}
    for number, name in enumerate(names):
        if rows[name].null_count:
            keys[f"{number} valid"] = pc.is_valid(rows[name])
        keys[f"{number}"] = rows[name]
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def _finish(
    merged: pa.Table, gap_seconds: int, newest: Mapping[str, datetime], now: datetime, schema: pa.Schema
) -> pa.Table:
    start, end = _micros(merged["start_time"]), _micros(merged["end_time"])
    sites, visitors = merged["site"].to_pylist(), merged["visitor_id"].to_pylist()
    newest_us = {site: int(time.timestamp() * 1_000_000) for site, time in newest.items()}
    site_newest = np.array([newest_us.get(site, 0) for site in sites], dtype=np.int64)
    derived: dict[str, Any] = {
        "session_id": [session_id(*key) for key in zip(sites, visitors, start.tolist(), strict=True)],
        "duration_seconds": (end - start) // 1_000_000,
        "bounced": pc.equal(merged["pageviews"], 1),
        "closed": site_newest - end > gap_seconds * 1_000_000,
        "updated_at": pa.array([now] * merged.num_rows, pa.timestamp("us", tz="UTC")),
    }
    return pa.table({name: derived.get(name, _get(merged, name)) for name in schema.names}).cast(schema)


def _get(table: pa.Table, name: str) -> Any:
    return table[name] if name in table.column_names else None


def _difference(existing: pa.Table, rows: pa.Table) -> Change:
    """Rows that are new or differ from the existing ones in more than `updated_at`, and ids that are gone."""
    place = pc.index_in(rows["session_id"], existing["session_id"])
    before = existing.take(place)
    same = pc.is_valid(place)
    for name in rows.column_names:
        if name != "updated_at":
            neither = pc.and_(pc.is_null(rows[name]), pc.is_null(before[name]))
            same = pc.and_(same, pc.or_(neither, pc.fill_null(pc.equal(rows[name], before[name]), False)))
    gone = pc.invert(pc.is_in(existing["session_id"], rows["session_id"]))
    return Change(rows.filter(pc.invert(same)), existing.filter(gone))


def _micros(times: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    return result


def _run_numbers(ordered: pa.Table, names: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """Numbers the runs of equal values in an ordered frame: 0, 0, 1, 2, 2, …"""
    changes = np.zeros(ordered.num_rows, dtype=bool)
    for name in names:
        codes = ordered[name].combine_chunks().dictionary_encode().indices.to_numpy()
        changes[1:] |= codes[1:] != codes[:-1]
    return np.cumsum(changes)
