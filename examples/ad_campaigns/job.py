"""The job: views, joined to their campaigns, counted per campaign in windows of 10 seconds of event time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.ad_campaigns.campaigns import ads
from examples.ad_campaigns.sinks import COUNTS, WINDOW_SECONDS, Sink, to_delta
from tidemark.jobs.events import Events
from tidemark.jobs.job import Job, Query, Sources
from tidemark.store.base import Commit
from tidemark.windows import tumbling_start

FIELDS = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address")
EVENTS = Events(
    "ad-events",
    # All of them text, as in the benchmark; the time is in milliseconds of the epoch.
    ", ".join(f"{name} string" for name in FIELDS),
    rules={
        # A field that is missing is told as that alone.
        "event_type": "event_type IS NULL OR event_type IN ('view', 'click', 'purchase')",
        "event_time": "event_time IS NULL OR try_cast(event_time AS bigint) IS NOT NULL",
    },
    # Only counts leave Spark, so that catching up is not held to so many events a second.
    batch_records=5_000_000,
)


def viewed(events: DataFrame, campaigns: DataFrame) -> DataFrame:
    """Views with their campaign: `campaign`, `event_time`, `clock_ms`. An ad of no campaign counts nowhere."""
    millis = F.expr("try_cast(event_time AS bigint)")
    views = events.where(F.col("event_type") == "view").select(
        "ad_id",
        F.timestamp_millis(millis).alias("event_time"),
        (F.unix_millis("record.timestamp") - millis).alias("clock_ms"),
    )
    return views.join(F.broadcast(campaigns), "ad_id").drop("ad_id")


def counted(views: DataFrame) -> DataFrame:
    """Views to the partial rows that sinks take."""
    start = tumbling_start(F.col("event_time"), WINDOW_SECONDS).alias("window_start")
    return views.groupBy("campaign", start).agg(
        F.count("*").alias("views"), F.min("clock_ms").alias("clock_ms")
    )


def job(sink: Sink = to_delta) -> Job:
    """The job with its counts into `sink`, every second."""

    def queries(sources: Sources) -> Sequence[Query]:
        campaigns = sources.spark.createDataFrame(list(ads().items()), "ad_id string, campaign string")

        def write(batch: DataFrame, commit: Commit) -> None:
            sink(sources.store, counted(batch).toArrow(), commit)

        rows = viewed(sources.events(EVENTS), campaigns)
        return [Query("counts", rows, write, trigger={"processingTime": "1 second"})]

    return Job("ad_campaigns", 1, (EVENTS,), queries, (COUNTS,) if sink is to_delta else ())
