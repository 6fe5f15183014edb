"""Sessions of the pageviews, see `tidemark.engine.intervals`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest
from tidemark.contract.channels import DIRECT, INTERNAL
from tidemark.contract.store import Where
from tidemark.contract.table import Change
from tidemark.engine.groups import Numbers, decoded, encoded
from tidemark.engine.intervals import OfSessions, Sweep, changed, micros, session_ids, swept

# Columns from the visitor (constant) or from the entry pageview.
OF_VISITOR = ("country", "browser", "os", "device")
OF_ENTRY = ("channel", "source", "medium", "campaign", "referrer_host")
# The columns of requests from which pageviews become sessions.
VIEW_COLUMNS = (
    "site", "visitor_id", "event_time", "path", "query", "referrer", "pageview",
    "channel", "source", "utm_medium", "utm_campaign", "referrer_host",
)  # fmt: skip
# These decide between pageviews of the same time, NULLs first. OF_ENTRY follows from them, and from the line's host.
CONTENT = ("entry_page", "entry_query", "entry_referrer", *OF_ENTRY)
_INTERVAL = (
    "site", "visitor_id", "start_time", "end_time", "pageviews", "exit_page", *CONTENT, *OF_VISITOR,
)  # fmt: skip
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Sessions(OfSessions):
    """Sessions of the pageviews in rows of silver.requests.

    A session is closed once its site's newest event is more than the gap past its end. Of pageviews at the same time,
    the entry is the first by path, query and referrer; the largest path is the exit. A session whose entry was
    referred by the site itself is direct.
    """

    newest: Newest = field(default_factory=dict)

    needs = (*VIEW_COLUMNS, *OF_VISITOR)
    encodes = ("site", "visitor_id")

    @property
    def identity(self) -> Mapping[str, str]:
        return {**super().identity, "entry": ", ".join(CONTENT)}

    def at(self, newest: Newest) -> Sessions:
        return replace(self, newest=newest)

    def partial(self, rows: pa.Table) -> pa.Table:
        """The sessions of these pageviews alone, as intervals: the table's columns without those that
        `combine` derives."""
        views = decoded(rows.filter(rows["pageview"]))
        columns = intervals_of(views) | {name: views[name] for name in ("site", "visitor_id", *OF_VISITOR)}
        return self.merge(pa.table({name: columns[name] for name in _INTERVAL}))

    def merge(self, partials: pa.Table) -> pa.Table:
        return joined(partials.combine_chunks(), self.gap_seconds, CONTENT)[0]

    def touched(self, partials: pa.Table) -> Where:
        """Conditions of sessions with which the intervals may merge, and of open ones that may have to close."""
        near = super().touched(partials)
        if not self.newest:
            return near
        # One condition for all sites, which costs one look-up per row.
        latest = max(self.newest.values()) - timedelta(seconds=self.gap_seconds)
        return [[("closed", "=", False), ("site", "in", list(self.newest)), ("end_time", "<", latest)], *near]

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The changed sessions, and the ids that disappeared in merges."""
        own = existing.select(list(_INTERVAL))
        both = pa.concat_tables([own, partials.select(list(_INTERVAL)).cast(own.schema)])
        merged, sweep = joined(both.combine_chunks(), self.gap_seconds, CONTENT)
        ids = session_ids(merged, sweep.first, existing["session_id"])
        return changed(existing, self._finished(merged, ids), existing.column_names)

    def _finished(self, merged: pa.Table, ids: pa.Array) -> pa.Table:
        start, end = micros(merged["start_time"]), micros(merged["end_time"])
        newest_us = {site: int(time.timestamp() * 1_000_000) for site, time in self.newest.items()}
        sites = encoded(merged["site"])
        of_site = [newest_us.get(site, 0) for site in sites.dictionary.to_pylist()]
        site_newest = np.array(of_site, np.int64)[sites.indices.to_numpy()]
        derived: dict[str, Any] = {
            "session_id": ids,
            "duration_seconds": (end - start) // 1_000_000,
            "bounced": pc.equal(merged["pageviews"], 1),
            "closed": site_newest - end > self.gap_seconds * 1_000_000,
        }
        return pa.table({name: merged[name] for name in _INTERVAL} | derived)


def intervals_of(views: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Each pageview as an interval: start, end, number of pageviews, and what follows from entry and exit."""
    time, path = views["event_time"], views["path"]
    internal = pc.equal(views["channel"], INTERNAL)
    return {
        "start_time": time,
        "end_time": time,
        "entry_page": path,
        "exit_page": path,
        "pageviews": pa.repeat(pa.scalar(1, pa.int64()), views.num_rows),
        "entry_query": views["query"],
        "entry_referrer": views["referrer"],
        "channel": pc.if_else(internal, DIRECT, views["channel"]),
        "source": pc.if_else(internal, "", pc.fill_null(views["source"], "")),
        "medium": _lower(views["utm_medium"]),
        "campaign": _lower(views["utm_campaign"]),
        "referrer_host": views["referrer_host"],
    }


def _lower(tag: pa.ChunkedArray) -> pa.ChunkedArray:
    """A campaign tag in lower case, empty if there is none."""
    return pc.fill_null(pc.utf8_lower(tag), "")


def joined(intervals: pa.Table, gap_seconds: int, content: Sequence[str] = ()) -> tuple[pa.Table, Sweep]:
    """One row per session, and the sweep that they come from, see `swept`."""
    sweep = swept(intervals, gap_seconds, content)
    if not intervals.num_rows:
        return intervals, sweep
    end = micros(intervals["end_time"])[sweep.order]
    last = np.maximum.reduceat(end, sweep.heads)
    views = intervals["pageviews"].to_numpy()[sweep.order]
    changes = {
        "end_time": pa.array(last).cast(_TIME),
        "pageviews": pa.array(np.add.reduceat(views, sweep.heads)),
    }
    if "exit_page" in intervals.column_names:
        ends = np.flatnonzero(end == last[sweep.session])
        tails = _largest(intervals["exit_page"], sweep.order[ends], sweep.session[ends])
        changes["exit_page"] = intervals["exit_page"].take(pa.array(tails))
    result = intervals.take(sweep.first)
    for name, values in changes.items():
        result = result.set_column(result.column_names.index(name), name, values)
    return result, sweep


def _largest(texts: pa.ChunkedArray, rows: Numbers, group: Numbers) -> Numbers:
    """The row with the largest text of each group. Rows come in ascending order of their groups."""
    last = np.append(group[1:] != group[:-1], True)
    if not last.all():
        chosen = encoded(texts.take(pa.array(rows)))
        rank = np.empty(len(chosen.dictionary), np.int64)
        rank[pc.sort_indices(chosen.dictionary).to_numpy()] = np.arange(len(rank))
        rows = rows[np.lexsort((rank[chosen.indices.to_numpy()], group))]
    largest: Numbers = rows[last]
    return largest
