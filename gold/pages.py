"""gold.pages: pageviews and visitors of each page per hour."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.quality.rules import Rule
from tidemark.sketches import added_up, mergeable, unique_count, unique_sketch
from tidemark.table import Column, Table
from tidemark.windows import tumbling_start, window_end

WINDOW_SECONDS = 3600
KEY = ("site", "window_start", "path")
SUMS = ["pageviews"]
UNIQUES = {"visitors": "visitors_sketch"}

TABLE = Table(
    name="gold.pages",
    about="One row per site, hour of event time and page. Entries and exits are in silver.sessions.",
    kind="upsert",
    key=KEY,
    time="window_start",
    reads="silver.requests",
    rules=(
        Rule(
            "viewed",
            "visitors >= 1 AND visitors <= pageviews",
            "visitors",
            "A page is there because somebody viewed it; nobody views it less than once.",
        ),
    ),
    combine=mergeable(KEY, SUMS, UNIQUES),
    state=added_up(WINDOW_SECONDS, SUMS, UNIQUES),
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the hour."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("path", "string", "Path of the page, without the query."),
        Column("pageviews", "long", "Pageviews of the page, see silver.requests."),
        Column("visitors", "long", "Distinct visitors that viewed it."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)


# The columns of silver.requests that are counted.
READS = ("site", "event_time", "pageview", "path", "visitor_id")


def pages(requests: DataFrame) -> DataFrame:
    """Rows of silver.requests to partial rows of the table, which add up; merging adds `updated_at`."""
    return (
        requests.where("pageview")
        .groupBy("site", tumbling_start(F.col("event_time"), WINDOW_SECONDS).alias("window_start"), "path")
        .agg(
            F.count("*").alias("pageviews"),
            unique_sketch(F.col("visitor_id")).alias("visitors_sketch"),
        )
        .withColumns(
            {
                "window_end": window_end(F.col("window_start"), WINDOW_SECONDS),
                "visitors": unique_count(F.col("visitors_sketch")),
            }
        )
    )
