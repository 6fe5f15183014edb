"""Sessions of which silver.session_steps has not every pageview, because it has the first ones only.

They are few, so that their lines are looked up one by one, and steps answer for all the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tidemark.figures.query import AllOf, AnyOf, Condition, HasElement, Where, count, query
from tidemark.figures.rows import Rows
from tidemark.figures.silver import MOST_STEPS, REQUESTS, SESSIONS, STEPS, VIEW

if TYPE_CHECKING:
    import pyarrow as pa

# More of them are not looked up.
MOST_SESSIONS = 100
COLUMNS = ("session_id", "site", "visitor_id", "start_time", "end_time")
# They tell sessions apart, too.
_SESSION = ("site", "visitor_id", "start_time")


def sessions(rows: Rows, where: Sequence[Condition], started: Sequence[Where]) -> pd.DataFrame | None:
    """The longer ones of the sessions that `where` keeps: columns COLUMNS. None if there are too many, or if
    silver.session_steps does not have all the sessions that `started` keeps, as while history is filled in."""
    if rows.reader.version(STEPS) is None:
        return None
    known, all_ = (
        rows(query(table, {"n": count()}, tuple(started)))["n"].iloc[0] for table in (STEPS, SESSIONS)
    )
    longer = (*where, Where("pageviews", ">", MOST_STEPS))
    listed = rows(
        query(SESSIONS, COLUMNS, longer, order_by=["session_id"], limit=MOST_SESSIONS + 1, counted=True)
    )
    return listed if known == all_ and len(listed) <= MOST_SESSIONS else None


def later(
    rows: Rows, long_sessions: pd.DataFrame, where: Sequence[Condition], started: Sequence[Where]
) -> list[str]:
    """The ids of those of the sessions that have no pageview which `where` keeps among their first ones, but later."""
    if long_sessions.empty:
        return []
    longer = (*started, Where("pageviews", ">", MOST_STEPS))
    first = HasElement("session_id", STEPS, "steps", tuple(where), longer)
    wanted = query(STEPS, ["session_id"], (*longer, first), order_by=["session_id"], counted=True)
    recorded = rows(wanted)["session_id"]
    others = long_sessions[~long_sessions["session_id"].isin(recorded)]
    return sorted(views(rows, others, where)["session_id"].unique().tolist())


def views(rows: Rows, long_sessions: pd.DataFrame, where: Sequence[Condition] = ()) -> pd.DataFrame:
    """The pageviews of sessions that `where` keeps: columns `session_id`, `event_time`, `path`."""
    if long_sessions.empty:
        return pd.DataFrame(columns=pd.Index(["session_id", "event_time", "path"]))
    # The bounds of time let an engine skip most files.
    times = tuple(
        AllOf((Where("event_time", ">=", each.start_time), Where("event_time", "<=", each.end_time)))
        for each in long_sessions.itertuples()
    )
    people = Where("visitor_id", "in", tuple(long_sessions["visitor_id"].unique().tolist()))
    kept = (*where, VIEW, people, AnyOf(times))
    lines = rows(query(REQUESTS, ["site", "visitor_id", "event_time", "path"], kept, counted=True))
    both = long_sessions.merge(lines, on=["site", "visitor_id"])
    inside = (both["event_time"] >= both["start_time"]) & (both["event_time"] <= both["end_time"])
    return both.loc[inside, ["session_id", "event_time", "path"]]


def left_out(batch: pa.Table, long_sessions: pd.DataFrame) -> pa.Table:
    """Rows of silver.session_steps without those of the `long_sessions`."""
    import pyarrow.compute as pc

    if long_sessions.empty:
        return batch
    # Only a list that is full can lack a pageview.
    full = np.flatnonzero(pc.greater_equal(pc.list_value_length(batch["steps"]), MOST_STEPS).to_numpy())
    if not len(full):
        return batch
    known = set(long_sessions[list(_SESSION)].itertuples(index=False, name=None))
    kept = np.ones(len(batch), bool)
    kept[full] = [tuple(row.values()) not in known for row in batch.select(_SESSION).take(full).to_pylist()]
    return batch.filter(kept)


def steps(longer: pd.DataFrame, every: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Rows of the schema for the sessions `longer`, with all their `views` as steps."""
    import pyarrow as pa

    every = every.sort_values(["session_id", "event_time", "path"])
    sessions = longer.sort_values("session_id")
    numbers = every.groupby("session_id").size().reindex(sessions["session_id"], fill_value=0)
    step = schema.field("steps").type.value_type
    flat = pa.StructArray.from_arrays(
        [
            pa.array(every["event_time"], step.field("time").type),
            pa.array(every["path"], step.field("path").type),
        ],
        fields=list(step),
    )
    offsets = pa.array([0, *numbers.cumsum()], pa.int32())
    own = [pa.array(sessions[name], schema.field(name).type) for name in schema.names if name != "steps"]
    lists = pa.ListArray.from_arrays(offsets, flat).cast(schema.field("steps").type)
    own.insert(schema.get_field_index("steps"), lists)
    return pa.table(own, schema=schema)
