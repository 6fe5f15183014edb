"""Rides per lift in sliding windows of 10 minutes every 5; late rides go to a separate topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.kit.events import Events
from examples.kit.job import Job, Sources
from examples.kit.mergeable import mergeable
from examples.kit.sinks import Upsert, same_windows
from examples.kit.watermarks import advance, newest, watermark_table, with_watermark
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Column, Table
from tidemark.stream.query import Query

WINDOW_MINUTES, SLIDE_MINUTES = 10, 5
# How long after its end, in event time of the same partition, a window accepts rides.
ALLOWED_LATENESS_MINUTES = 5

RIDES = Events("rides", "lift string, pass string, event_time timestamp")
LATE_RIDES = "rides.late"

KEY = ("window_start", "lift")
RIDES_PER_LIFT = Table(
    name="ski_lifts.rides_per_lift",
    about="One row per lift and sliding window of 10 minutes every 5.",
    kind="upsert",
    key=KEY,
    time="window_start",
    reads="rides",
    columns=(
        Column("window_start", "timestamp", "Start of the window, a multiple of 5 minutes."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("lift", "string", "Lift."),
        Column("rides", "long", "Rides that the window has taken so far."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)
WATERMARKS = watermark_table("ski_lifts")


def rides_per_lift(rides: DataFrame) -> DataFrame:
    """Aggregates rides with a `watermark` to partial rows of the table, which add up.

    A ride counts in each of its two windows that is within the allowed lateness.
    """
    windows = F.window("event_time", f"{WINDOW_MINUTES} minutes", f"{SLIDE_MINUTES} minutes")
    spread = rides.select("lift", "watermark", windows.alias("window"))
    return (
        spread.where(_takes(F.col("window.end")))
        .groupBy(F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), "lift")
        .agg(F.count("*").alias("rides"))
    )


def late_rides(rides: DataFrame) -> DataFrame:
    """Rides whose windows are all past the allowed lateness, as Kafka records."""
    # The last window over a ride starts at the multiple of the slide before it.
    slide = SLIDE_MINUTES * 60
    start = F.floor(F.unix_timestamp("event_time") / slide) * slide
    last_end = F.timestamp_seconds(start + WINDOW_MINUTES * 60)
    place = F.concat_ws("/", "record.partition", "record.offset")
    return rides.where(~_takes(last_end)).select(
        F.lit(LATE_RIDES).alias("topic"),
        place.cast("binary").alias("key"),
        F.to_json(F.struct("lift", "pass", "event_time", "watermark")).cast("binary").alias("value"),
    )


def _takes(window_end: SparkColumn) -> SparkColumn:
    closed_at = window_end + F.expr(f"INTERVAL {ALLOWED_LATENESS_MINUTES} MINUTES")
    return F.coalesce(F.col("watermark") < closed_at, F.lit(True))


def write(store: Store, send: Callable[[DataFrame], None], batch: DataFrame, commit: Commit) -> None:
    """Commits a batch of rides to the windows, sends the late ones, and commits the watermarks."""
    rides = with_watermark(batch, newest(store, WATERMARKS, RIDES.topic)).persist()
    try:
        added = mergeable(KEY, ["rides"], {})
        Upsert(RIDES_PER_LIFT, rides_per_lift, added, same_windows).write(store, rides, commit)
        send(late_rides(rides))
        advance(store, WATERMARKS, rides, commit)
    finally:
        rides.unpersist()


def queries(sources: Sources) -> Sequence[Query]:
    """The job's one query."""
    return [
        Query(
            "rides",
            partial(sources.events, RIDES),
            partial(write, sources.store, sources.send),
            commits=(RIDES_PER_LIFT, WATERMARKS),
        ),
    ]


JOB = Job(
    "ski_lifts",
    version=1,
    inputs=(RIDES,),
    queries=queries,
    tables=(RIDES_PER_LIFT, WATERMARKS),
    outputs=(LATE_RIDES,),
)
