"""gold.visitors_by_country: visitors per country in 5-minute windows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.quality.rules import Rule
from tidemark.sketches import added_up, mergeable, unique_count, unique_sketch
from tidemark.table import Column, Table
from tidemark.windows import tumbling_start, window_end

WINDOW_SECONDS = 300
KEY = ("site", "window_start", "country")
SUMS = ["pageviews", "requests", "bot_requests"]
UNIQUES = {"visitors": "visitors_sketch"}

TABLE = Table(
    name="gold.visitors_by_country",
    about="One row per site, 5-minute event-time window and country.",
    kind="upsert",
    key=KEY,
    time="window_start",
    reads="silver.requests",
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
            "something_counted",
            "requests >= 1 AND visitors >= 0 AND pageviews >= 0 AND bot_requests >= 0",
            "requests",
            "A window is there because of a request; no count is negative.",
        ),
        Rule("country_code", "country RLIKE '^[A-Z]{2}$'", "country", "An ISO 3166-1 alpha-2 code, or ZZ."),
    ),
    combine=mergeable(KEY, SUMS, UNIQUES),
    state=added_up(WINDOW_SECONDS, SUMS, UNIQUES),
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


# The columns of silver.requests that are counted.
READS = ("site", "event_time", "country", "pageview", "bot", "visitor_id")


def visitors_by_country(requests: DataFrame) -> DataFrame:
    """Rows of silver.requests to partial rows of the table, which add up; merging adds `updated_at`."""
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
