"""Sessions as intervals that merge, so the order of arrival does not matter.

A session is one visitor's pageviews on one site with gaps shorter than a limit. Whether two pageviews share a session
depends only on the pageviews between them. So sessions of any parts of the pageviews, merged if they are closer
than the limit, equal those of one pass over all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest, stamped
from tidemark.contract.channels import DIRECT, INTERNAL
from tidemark.contract.store import Condition, Where
from tidemark.contract.table import Change
from tidemark.engine.groups import decoded

# Columns from the visitor (constant) or from the entry pageview.
OF_VISITOR = ("country", "browser", "os", "device")
OF_ENTRY = ("channel", "source", "medium", "campaign", "referrer_host")
# What decides between pageviews of the same time, NULLs first. OF_ENTRY follows from it, and from the line's host.
_CONTENT = ("entry_page", "entry_query", "entry_referrer", *OF_ENTRY)
_ENTRY_ORDER = ("site", "visitor_id", "start_time", *_CONTENT)
_INTERVAL = (
    "site", "visitor_id", "start_time", "end_time", "pageviews", "exit_page", *_CONTENT, *OF_VISITOR,
)  # fmt: skip


@dataclass(frozen=True)
class Sessions:
    """Sessions of the pageviews in rows of silver.requests.

    A session is closed once its site's newest event is more than the gap past its end. Of pageviews at the same time,
    the entry is the first by path, query and referrer; the largest path is the exit. A session whose entry was
    referred by the site itself is direct.
    """

    gap_seconds: int
    newest: Newest = field(default_factory=dict)

    needs = (
        "site", "visitor_id", "event_time", "path", "query", "referrer", "pageview", *OF_VISITOR,
        "channel", "source", "utm_medium", "utm_campaign", "referrer_host",
    )  # fmt: skip
    encodes = ("site", "visitor_id")

    @property
    def identity(self) -> Mapping[str, str]:
        return {"gap": f"{self.gap_seconds} s", "entry": ", ".join(_CONTENT)}

    @property
    def window_seconds(self) -> None:
        return None

    def at(self, newest: Newest) -> Sessions:
        return replace(self, newest=newest)

    def partial(self, rows: pa.Table) -> pa.Table:
        """The sessions of these pageviews alone, as intervals: the table's columns without those that
        `combine` derives."""
        views = decoded(rows.filter(rows["pageview"]))
        time, path = views["event_time"], views["path"]
        internal = pc.equal(views["channel"], INTERNAL)
        own = {
            "start_time": time, "end_time": time, "entry_page": path, "exit_page": path,
            "pageviews": pa.repeat(pa.scalar(1, pa.int64()), views.num_rows),
            "entry_query": views["query"], "entry_referrer": views["referrer"],
            "channel": pc.if_else(internal, DIRECT, views["channel"]),
            "source": pc.if_else(internal, "", pc.fill_null(views["source"], "")),
            "medium": _said(views["utm_medium"]), "campaign": _said(views["utm_campaign"]),
        }  # fmt: skip
        columns = own | {name: views[name] for name in ("site", "visitor_id", "referrer_host", *OF_VISITOR)}
        return self.merge(pa.table({name: columns[name] for name in _INTERVAL}))

    def merge(self, partials: pa.Table) -> pa.Table:
        return _join_intervals(partials.combine_chunks(), self.gap_seconds * 1_000_000)

    def touched(self, partials: pa.Table) -> Where:
        """Conditions of sessions with which the intervals may merge, and of open ones that may have to close."""
        gap = timedelta(seconds=self.gap_seconds)
        groups: list[list[Condition]] = []
        if self.newest:  # one condition for all sites, which costs one look-up per row
            latest = max(self.newest.values()) - gap
            groups.append(
                [("closed", "=", False), ("site", "in", list(self.newest)), ("end_time", "<", latest)]
            )
        if partials.num_rows:
            first = pc.min(partials["start_time"]).as_py() - gap
            last = pc.max(partials["end_time"]).as_py() + gap
            visitors = pc.unique(partials["visitor_id"]).to_pylist()
            groups.append(
                [("end_time", ">=", first), ("start_time", "<=", last), ("visitor_id", "in", visitors)]
            )
        return groups

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The changed sessions, and the ids that disappeared in merges."""
        own = existing.select(list(_INTERVAL))
        both = pa.concat_tables([own, partials.select(list(_INTERVAL)).cast(own.schema)])
        rows = self._finished(self.merge(both), existing.schema)
        return _difference(existing, rows)

    def _finished(self, merged: pa.Table, schema: pa.Schema) -> pa.Table:
        start, end = _micros(merged["start_time"]), _micros(merged["end_time"])
        sites, visitors = merged["site"].to_pylist(), merged["visitor_id"].to_pylist()
        newest_us = {site: int(time.timestamp() * 1_000_000) for site, time in self.newest.items()}
        site_newest = np.array([newest_us.get(site, 0) for site in sites], dtype=np.int64)
        derived: dict[str, Any] = {
            "session_id": [session_id(*key) for key in zip(sites, visitors, start.tolist(), strict=True)],
            "duration_seconds": (end - start) // 1_000_000,
            "bounced": pc.equal(merged["pageviews"], 1),
            "closed": site_newest - end > self.gap_seconds * 1_000_000,
        }
        columns = {name: merged[name] for name in _INTERVAL} | derived
        whole = stamped(pa.table(columns))
        return whole.select(schema.names).cast(schema)


def session_id(site: str, visitor_id: str, start_us: int) -> str:
    """Id of the session with this start: 32 hex digits, independent of the order of arrival."""
    return blake2b(f"{site}\0{visitor_id}\0{start_us}".encode(), digest_size=16).hexdigest()


def _said(tag: pa.ChunkedArray) -> pa.ChunkedArray:
    """A campaign tag in lower case, empty if there is none."""
    return pc.fill_null(pc.utf8_lower(tag), "")


def _join_intervals(intervals: pa.Table, gap_us: int) -> pa.Table:
    """One row per session: a sweep over all intervals of a visitor in order of their start."""
    if not intervals.num_rows:
        return intervals
    ordered = intervals.take(_nulls_first(intervals, _ENTRY_ORDER))
    start, end = _micros(ordered["start_time"]), _micros(ordered["end_time"])
    visitor = _run_numbers(ordered, ("site", "visitor_id"))

    # The latest end so far within each visitor: an increasing offset per visitor allows one running
    # maximum for all visitors. Uses ranks instead of times, whose offsets would overflow.
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
    """Indices that sort `rows` by columns, ascending. An additional sort key puts NULLs first, because pyarrow
    25 replaced the option for the position of NULLs, and runtimes have older versions.
    """
    keys = {}
    for number, name in enumerate(names):
        if rows[name].null_count:
            keys[f"{number} valid"] = pc.is_valid(rows[name])
        keys[f"{number}"] = rows[name]
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])


def _difference(existing: pa.Table, rows: pa.Table) -> Change:
    """Rows that are new or differ from existing ones, apart from `updated_at`, and ids that disappeared."""
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
