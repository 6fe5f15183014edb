"""gold.traffic: requests, visitors, bytes and status classes per minute."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.quality.rules import Rule
from tidemark.sketches import added_up, mergeable, unique_count, unique_sketch
from tidemark.table import Column, Table
from tidemark.windows import tumbling_start, window_end

WINDOW_SECONDS = 60
KEY = ("site", "window_start")
STATUS_CLASSES = (2, 3, 4, 5)
SUMS = ["requests", "pageviews", "bot_requests", "bytes", *(f"status_{c}xx" for c in STATUS_CLASSES)]
UNIQUES = {"visitors": "visitors_sketch"}

TABLE = Table(
    name="gold.traffic",
    about="One row per site and minute of event time.",
    kind="upsert",
    key=KEY,
    time="window_start",
    reads="silver.requests",
    volume="requests",
    rules=(
        Rule(
            "aligned_window",
            f"unix_seconds(window_start) % {WINDOW_SECONDS} = 0"
            f" AND unix_seconds(window_end) - unix_seconds(window_start) = {WINDOW_SECONDS}",
            "window_start",
            "Windows are aligned to the epoch and equally long.",
        ),
        Rule(
            "people_and_bots",
            "pageviews + bot_requests <= requests AND visitors <= requests - bot_requests",
            "requests",
            "Bots make no pageviews, and every visitor makes a request.",
        ),
        Rule(
            "status_classes",
            "status_2xx + status_3xx + status_4xx + status_5xx <= requests",
            "requests",
            "Every response is in at most one status class.",
        ),
    ),
    combine=mergeable(KEY, SUMS, UNIQUES),
    state=added_up(WINDOW_SECONDS, SUMS, UNIQUES),
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the minute."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("requests", "long", "All accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("bot_requests", "long", "Requests of known crawlers."),
        Column("bytes", "long", "Bytes of all responses."),
        *(
            Column(f"status_{c}xx", "long", f"Responses with a status of {c}00 to {c}99.")
            for c in STATUS_CLASSES
        ),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)


# The columns of silver.requests that are counted.
READS = ("site", "event_time", "pageview", "bot", "bytes", "status", "visitor_id")


def traffic(requests: DataFrame) -> DataFrame:
    """Rows of silver.requests to partial rows of the table, which add up; merging adds `updated_at`."""
    status_class = F.floor(F.col("status") / 100)
    return (
        requests.groupBy("site", tumbling_start(F.col("event_time"), WINDOW_SECONDS).alias("window_start"))
        .agg(
            F.count("*").alias("requests"),
            F.count_if("pageview").alias("pageviews"),
            F.count_if("bot").alias("bot_requests"),
            F.sum("bytes").alias("bytes"),
            *(F.count_if(status_class == c).alias(f"status_{c}xx") for c in STATUS_CLASSES),
            unique_sketch(F.when(~F.col("bot"), F.col("visitor_id"))).alias("visitors_sketch"),
        )
        .withColumns(
            {
                "window_end": window_end(F.col("window_start"), WINDOW_SECONDS),
                "visitors": unique_count(F.col("visitors_sketch")),
            }
        )
    )
