"""silver.visitor_days: requests of each visitor per day, by which some are suspected to be bots."""

from __future__ import annotations

import pyarrow as pa

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Histogram, Sum, Text, WindowedCounts

DAY_SECONDS = 86_400
_MINUTE_US = 60_000_000


def minute_of_day(times: pa.Array) -> pa.Array:
    """The minute of the day (UTC) of each time: 0 to 1439."""
    minutes = times.cast(pa.int64()).to_numpy() // _MINUTE_US
    return pa.array(minutes % (DAY_SECONDS // 60), pa.int32())


COUNTS = WindowedCounts(
    seconds=DAY_SECONDS,
    start="day",
    by=(Text("visitor_id"),),
    where=~column("bot"),
    sums={
        "requests": ROWS,
        "pageviews": Sum("pageview"),
        "assets": Sum("asset"),
        "not_found": Sum("status", within=(404, 404)),
        "robots_txt": Sum(where=column("path") == "/robots.txt"),
        "hosting": Sum(where=column("network") == "hosting"),
    },
    histograms={"minutes": Histogram("event_time", "minute of the day", minute_of_day, column("pageview"))},
    visitors="none",
)

TABLE = Table(
    name="silver.visitor_days",
    about="One row per site, day (UTC) and visitor that is not a known bot. A day is suspected to be that of a bot if"
    " a) `robots_txt` > 0, or b) `pageviews` >= 30 and `assets` = 0 while another row of the same site and day has"
    " assets, or c) a minute has more than 60 pageviews, or d) `requests` >= 10 and all of them are `not_found`, or e)"
    " `hosting` > 0, `pageviews` >= 3 and `assets` = 0 while another row of the same site and day has assets."
    " Readers derive this, so a later line may lift it.",
    kind="upsert",
    key=COUNTS.key,
    time="day",
    reads="silver.requests",
    keyed=True,
    expects=(
        Expectation(
            "parts_of_requests",
            (column("requests") >= 1)
            & (column("pageviews") + column("assets") <= column("requests"))
            & (column("not_found") <= column("requests"))
            & (column("robots_txt") <= column("requests"))
            & (column("hosting").is_null() | (column("hosting") <= column("requests"))),
            "requests",
            "A visitor of a day makes a request, and no more of one kind than of all.",
        ),
        Expectation(
            "whole_day", column("day").micros() % (DAY_SECONDS * 1_000_000) == 0, "day", "A day begins at midnight UTC."
        ),
    ),
    aggregation=lambda meaning: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("day", "timestamp", "Start of the day, UTC."),
        Column("visitor_id", "string", "Visitor, see silver.requests."),
        Column("requests", "long", "Accepted requests of the visitor."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("assets", "long", "Requests of files that belong to a page."),
        Column("not_found", "long", "Responses with status 404."),
        Column("robots_txt", "long", "Requests of /robots.txt."),
        Column("hosting", "long", "Requests from a network of hosting."),
        Column("minutes", "counts", "From a minute of the day (0 to 1439, UTC) to the pageviews in it."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip
