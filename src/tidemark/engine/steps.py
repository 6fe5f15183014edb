"""The first pageviews of each session, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest, stamped
from tidemark.contract.store import Where
from tidemark.contract.table import Change
from tidemark.engine.groups import Numbers, decoded, encoded, whole
from tidemark.engine.intervals import changed, micros, near, nulls_first, session_ids, sessions_of

# Of a session, so that a crawler that poses as a visitor does not make endless rows.
MOST_STEPS = 200
_INTERVAL = ("site", "visitor_id", "start_time", "end_time", "pageviews", "steps")
_STEP = pa.struct([("time", pa.timestamp("us", tz="UTC")), ("path", pa.string())])


@dataclass(frozen=True)
class SessionSteps:
    """The first MOST_STEPS pageviews of each session as (time, path), by time, then path.

    The first steps of merged sessions are the first ones of their steps.
    """

    gap_seconds: int

    needs = ("site", "visitor_id", "event_time", "path", "pageview")
    encodes = ("site", "visitor_id", "path")

    @property
    def identity(self) -> Mapping[str, str]:
        return {"gap": f"{self.gap_seconds} s", "steps": f"at most {MOST_STEPS}"}

    @property
    def window_seconds(self) -> None:
        return None

    def at(self, newest: Newest) -> SessionSteps:
        return self

    def partial(self, rows: pa.Table) -> pa.Table:
        """The sessions of these pageviews alone: the table's columns without `session_id`."""
        views = decoded(rows.filter(rows["pageview"]))
        step = pa.StructArray.from_arrays(
            [whole(views["event_time"]).cast(_STEP[0].type), whole(views["path"]).cast(pa.string())],
            fields=list(_STEP),
        )
        own = {
            "start_time": views["event_time"], "end_time": views["event_time"],
            "pageviews": pa.repeat(pa.scalar(1, pa.int64()), views.num_rows),
            "steps": pa.ListArray.from_arrays(pa.array(np.arange(views.num_rows + 1), pa.int32()), step),
        }  # fmt: skip
        columns = own | {name: views[name] for name in ("site", "visitor_id")}
        return self.merge(pa.table({name: columns[name] for name in _INTERVAL}))

    def merge(self, partials: pa.Table) -> pa.Table:
        if not partials.num_rows:
            return partials
        order = [(name, "ascending") for name in ("site", "visitor_id", "start_time")]
        ordered = partials.take(
            pc.sort_indices(partials.select([name for name, _ in order]), sort_keys=order)
        )
        heads, session = sessions_of(ordered, self.gap_seconds)
        ends = np.maximum.reduceat(micros(ordered["end_time"]), heads)
        found = {name: ordered[name].take(pa.array(heads)) for name in ("site", "visitor_id", "start_time")}
        found["end_time"] = pa.array(ends).cast(_STEP[0].type)
        found["pageviews"] = pa.array(np.add.reduceat(ordered["pageviews"].to_numpy(), heads))
        found["steps"] = _first_steps(whole(ordered["steps"]), session, len(heads))
        return pa.table(found)

    def touched(self, partials: pa.Table) -> Where:
        return near(partials, self.gap_seconds)

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The changed sessions, and the ids that disappeared in merges. A session changes if it gains pageviews."""
        own = existing.select(list(_INTERVAL))
        merged = self.merge(pa.concat_tables([own, partials.select(list(_INTERVAL)).cast(own.schema)]))
        rows = stamped(merged.append_column("session_id", pa.array(session_ids(merged), pa.string())))
        return changed(existing, rows.select(existing.schema.names).cast(existing.schema), ["pageviews"])


def _first_steps(lists: pa.ListArray, session: Numbers, number: int) -> pa.ListArray:
    """One list for each of `number` sessions: the first of the steps of its lists."""
    steps = lists.flatten()
    of = session[pc.list_parent_indices(lists).to_numpy()]
    times, paths = steps.field("time"), encoded(steps.field("path"))
    rank = np.empty(len(paths.dictionary), np.int64)
    rank[nulls_first(pa.table({"path": paths.dictionary}), ["path"]).to_numpy()] = np.arange(len(rank))
    order = np.lexsort((rank[paths.indices.to_numpy()], micros(times), of))
    of = of[order]
    place = np.arange(len(of)) - np.searchsorted(of, of)
    kept = order[place < MOST_STEPS]
    offsets = np.searchsorted(of[place < MOST_STEPS], np.arange(number + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), steps.take(pa.array(kept)))
