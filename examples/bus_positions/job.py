"""The job: reads positions and writes the state of each bus at every tick of the clock."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.bus_positions.routes import ROUTES
from examples.bus_positions.tracker import SNAPSHOT, Tracker
from examples.kit.events import Events
from examples.kit.job import Job, Sources
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule
from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Column, Table
from tidemark.stream.query import Query

POSITIONS = Events(
    "positions",
    "bus string, route string, event_time timestamp, x double, y double",
    rules=(
        RejectingRule(
            "unknown_route",
            column("route").isin(list(ROUTES)),
            "route",
            "The town has the route.",
            unless=column("route").is_null(),
        ),
    ),
)

_COLUMNS = (
    Column("bus", "string", "Which bus."),
    Column("tick", "timestamp", "Moment of the clock (processing time) that the row was made for."),
    Column("event_time", "timestamp", "When the bus was there, by its own report."),
    Column("route", "string", "The route that it is on."),
    Column("x", "double", "Metres east of the town's centre."),
    Column("y", "double", "Metres north of the town's centre."),
    Column("along", "double", "Metres along the route."),
    Column("speed", "double", "Metres a second since the position before; NULL while there is none."),
    Column("stops", "strings", "The coming stops, the next one first; empty while the bus stands."),
    Column("arrivals", "longs", "When it will be there if it goes on like this, in epoch milliseconds."),
    Column("heard_at", "timestamp", "When (processing time) the bus was last heard."),
    Column("silent", "boolean", "Nothing was heard of it for longer than it may keep quiet."),
    Column("updated_at", "timestamp", "When the row was written."),
)

SNAPSHOTS = Table(
    name="bus_positions.snapshots",
    about="The latest of each bus at every tick, where something had changed.",
    kind="append",
    key=("bus", "tick"),
    columns=_COLUMNS,
    time="tick",
    reads="positions",
)

LATEST = Table(
    name="bus_positions.latest",
    about="The newest snapshot of each bus.",
    kind="upsert",
    key=("bus",),
    columns=_COLUMNS,
    time="",
    reads="positions",
)


def job(every_seconds: float = 30, silent_seconds: float = 120) -> Job:
    """The job that reads POSITIONS and updates both tables: a snapshot every `every_seconds` of the clock;
    a bus is silent after `silent_seconds` without a position."""

    def queries(sources: Sources) -> Sequence[Query]:
        def write(batch: DataFrame, commit: Commit) -> None:
            snapshots = batch.withColumn("updated_at", F.current_timestamp()).toArrow()
            if snapshots.num_rows:
                sources.store.append_arrow(SNAPSHOTS, snapshots, commit)
                sources.store.upsert(LATEST, Change(newest(snapshots)), commit)

        def rows() -> DataFrame:
            return track(sources.events(POSITIONS), every_seconds, silent_seconds)

        # Ticks need batches, and a batch costs about half a second of one core: no more of them than help.
        trigger = {"processingTime": f"{min(1.0, every_seconds / 3):g} seconds"}
        return [Query("track", rows, write, trigger=trigger, timer_seconds=silent_seconds + every_seconds)]

    return Job("bus-positions", 1, (POSITIONS,), queries, tables=(SNAPSHOTS, LATEST))


def track(positions: DataFrame, every_seconds: float, silent_seconds: float) -> DataFrame:
    """Snapshots, as in SNAPSHOT, of a stream of valid events, see POSITIONS."""
    every, silent = round(every_seconds * 1000), round(silent_seconds * 1000)
    return (
        positions.select("bus", "route", F.unix_millis("event_time").alias("time"), "x", "y")
        .groupBy("bus")
        .transformWithState(Tracker(every, silent), SNAPSHOT, "Append", "ProcessingTime")
    )


def newest(snapshots: pa.Table) -> pa.Table:
    """The row of each bus with the latest tick."""
    last = snapshots.group_by("bus").aggregate([("tick", "max")]).rename_columns(["bus", "tick"])
    keep = {(row["bus"], row["tick"]) for row in last.to_pylist()}
    keys = zip(snapshots["bus"].to_pylist(), snapshots["tick"].to_pylist(), strict=True)
    return snapshots.filter(pa.array([key in keep for key in keys], pa.bool_()))
