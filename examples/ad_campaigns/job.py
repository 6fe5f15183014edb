"""The job: views, joined to their campaigns, counted per campaign in windows of 10 seconds of event time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from examples.ad_campaigns.campaigns import ads
from examples.ad_campaigns.sinks import COUNTS, PARTIAL, WINDOW_SECONDS, Sink, to_delta
from examples.kit.events import Events
from examples.kit.fetched import fetch, validate
from examples.kit.job import Job, Sources
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule
from tidemark.contract.store import Commit
from tidemark.stream.accounting import Account, account_facts
from tidemark.stream.query import Facts, Query

FIELDS = ("user_id", "page_id", "ad_id", "ad_type", "event_type", "event_time", "ip_address")
TYPES = ("view", "click", "purchase")
EVENTS = Events(
    "ad-events",
    # All fields are text, as in the benchmark; the time is in epoch milliseconds.
    ", ".join(f"{name} string" for name in FIELDS),
    # The only reason for a missing field is that it is missing.
    rules=(
        RejectingRule(
            "event_type", column("event_type").isin(TYPES), "event_type", "The type is a known one.",
            unless=column("event_type").is_null(),
        ),
        RejectingRule(
            "event_time", column("event_time").matches("[0-9]{1,15}"), "event_time", "The time is in milliseconds.",
            unless=column("event_time").is_null(),
        ),
    ),
    collected=True,
    batch_records=400_000,
)  # fmt: skip


def viewed(events: pa.Table) -> pa.Table:
    """Views with their campaign: `campaign`, `event_ms`, `clock_ms`. An ad without a campaign is ignored."""
    views = events.filter(pc.equal(events["event_type"], "view"))
    known = ads()
    place = pc.index_in(views["ad_id"], pa.array(known))
    millis = views["event_time"].cast(pa.int64())
    clock = pc.subtract(
        views["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()), millis
    )
    campaigns = pa.array(known.values()).take(place.combine_chunks())
    return pa.table({"campaign": campaigns, "event_ms": millis, "clock_ms": clock}).filter(place.is_valid())


def counted(views: pa.Table) -> pa.Table:
    """Aggregates views to partial rows for the sinks, PARTIAL."""
    millis = views["event_ms"].to_numpy()
    starts = pa.array(millis - millis % (WINDOW_SECONDS * 1000)).cast(pa.timestamp("ms", "UTC"))
    windows = views.append_column("window_start", starts).group_by(["campaign", "window_start"])
    counts = windows.aggregate([("clock_ms", "count"), ("clock_ms", "min")])
    return counts.rename_columns(["campaign", "window_start", "views", "clock_ms"]).cast(PARTIAL)


def job(sink: Sink = to_delta) -> Job:
    """The job that writes its counts to `sink` every second."""

    def queries(sources: Sources) -> Sequence[Query]:
        def write(batch: DataFrame, commit: Commit) -> Facts:
            views, counts = [], []
            for records in fetch(batch):
                validated = validate(records, EVENTS, sources.spark)
                sources.send_letters(validated.bad, EVENTS)
                views.append(viewed(validated.good))
                counts.append(validated.counts)
            sink(sources.store, counted(pa.concat_tables(views)), commit)
            return account_facts(Account(counts))

        def rows() -> DataFrame:
            return sources.raw(EVENTS.topic, most=EVENTS.batch_records)

        trigger = {"processingTime": "1 second"}
        elsewhere = "" if sink is to_delta else "Redis"
        return [Query("counts", rows, write, trigger=trigger, commits=tables, elsewhere=elsewhere)]

    tables = (COUNTS,) if sink is to_delta else ()
    return Job("ad_campaigns", 1, (EVENTS,), queries, tables)
