"""gold.visitors_by_country: visitors per country in 5-minute windows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.sketches import mergeable, unique_count, unique_sketch
from tidemark.table import Column, Table
from tidemark.windows import tumbling_start, window_end

WINDOW_SECONDS = 300
KEY = ("site", "window_start", "country")

TABLE = Table(
    name="gold.visitors_by_country",
    about="One row per site, 5-minute event-time window and country.",
    kind="upsert",
    key=KEY,
    time="window_start",
    reads="silver.requests",
    combine=mergeable(KEY, ["pageviews", "requests", "bot_requests"], {"visitors": "visitors_sketch"}),
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the window, aligned to the epoch."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("country", "string", "ISO 3166-1 alpha-2; ZZ where unknown."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("requests", "long", "All accepted requests."),
        Column("bot_requests", "long", "Requests of known crawlers."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)


def visitors_by_country(requests: DataFrame) -> DataFrame:
    """Rows of silver.requests to partial rows of the table, which add up; `updated_at` comes with the merge."""
    return (
        requests.groupBy(
            "site", tumbling_start(F.col("event_time"), WINDOW_SECONDS).alias("window_start"), "country"
        )
        .agg(
            F.count_if("pageview").alias("pageviews"),
            F.count("*").alias("requests"),
            F.count_if("bot").alias("bot_requests"),
            unique_sketch(F.when(~F.col("bot"), F.col("visitor_id"))).alias("visitors_sketch"),
        )
        .withColumns(
            {
                "window_end": window_end(F.col("window_start"), WINDOW_SECONDS),
                "visitors": unique_count(F.col("visitors_sketch")),
            }
        )
    )
