"""The job's source, one of two: the log lines in Kafka, or the table of requests that the pipeline makes of them."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from examples.kit.events import Events, names_of
from examples.kit.job import Sources
from tidemark.parse.detect import parse
from tidemark.store import lakehouse

REQUESTS = "silver.requests"


def validated(records: DataFrame) -> DataFrame:
    """Parses records of log lines: `id`, `client_ip`, `event_time`, `method`, `path`, `status`; `record`,
    `accepted` and `reasons` as for JSON events, see `examples.kit.events.validated`."""
    lines = records.select(
        F.struct("topic", "partition", "offset", "timestamp", "value").alias("record"),
        "value",
        *(F.lit(None).cast("string").alias(name) for name in ("format", "fields", "site")),
    )
    read = F.col("well_formed")
    broken = {
        "malformed": ~read,
        "invalid_time": read & F.col("event_time").isNull(),
        "invalid_status": read & ~F.col("status_ok"),
    }
    accepted = reduce(Column.__and__, [~fault for fault in broken.values()])
    place = F.format_string("%05d/%019d", "record.partition", "record.offset")
    names = ("client_ip", "event_time", "method", "path", "status")
    verdict = (accepted.alias("accepted"), names_of(broken).alias("reasons"))
    return parse(lines).select(place.alias("id"), *names, "record", *verdict)


LINES = Events("access-log", "", validate=validated)


def from_topic(sources: Sources) -> DataFrame:
    """The good lines of the topic."""
    return sources.events(LINES).drop("record")


def from_table(sources: Sources) -> DataFrame:
    """The rows of silver.requests as the pipeline commits them, beside which the job runs on the same home.
    Rows that a rebuild rewrites are not read again."""
    path = lakehouse.of(sources.settings).path(REQUESTS)
    rows = sources.spark.readStream.format("delta").option("skipChangeCommits", "true").load(path)
    place = F.format_string("%05d/%019d", "partition", "offset")
    return rows.select(place.alias("id"), "client_ip", "event_time", "method", "path", "status")
