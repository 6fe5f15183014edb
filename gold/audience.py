"""gold.audience: requests and visitors per hour by kind of bot, country, device, browser and system."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Sum, Text, WindowedCounts

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=tuple(map(Text, ("bot_kind", "country", "device", "browser", "os"))),
    sums={"requests": ROWS, "pageviews": Sum("pageview"), "bytes": Sum("bytes")},
)

TABLE = Table(
    name="gold.audience",
    about="One row per site, hour of event time, kind of bot, country, device, browser and system: answers a filter of"
    " these fields.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        Expectation(
            "parts_of_requests",
            (column("requests") >= 1)
            & (column("pageviews") <= column("requests"))
            & (column("visitors") <= column("requests")),
            "requests",
            "Somebody made a request, and every pageview and visitor needs one.",
        ),
    ),
    made=lambda meaning: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the hour."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("bot_kind", "string", "Kind of the bot, see silver.requests; empty for people."),
        Column("country", "string", "ISO 3166-1 alpha-2; ZZ where unknown."),
        Column("device", "string", "desktop, mobile, tablet, bot or other."),
        Column("browser", "string", "Browser family."),
        Column("os", "string", "Operating system family."),
        Column("requests", "long", "Accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("bytes", "long", "Bytes of all responses."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)  # fmt: skip
