"""gold.audience: requests and visitors per hour by kind of bot, country, device, browser and system."""

from __future__ import annotations

from gold._columns import PARTS_OF_REQUESTS, UPDATED_AT, VISITORS, VISITORS_SKETCH, windowed
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
        PARTS_OF_REQUESTS,
    ),
    made=lambda meaning: COUNTS,
    columns=(
        *windowed("hour"),
        Column("bot_kind", "string", "Kind of the bot, see silver.requests; empty for people."),
        Column("country", "string", "ISO 3166-1 alpha-2; ZZ where unknown."),
        Column("device", "string", "desktop, mobile, tablet, bot or other."),
        Column("browser", "string", "Browser family."),
        Column("os", "string", "Operating system family."),
        Column("requests", "long", "Accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("bytes", "long", "Bytes of all responses."),
        VISITORS,
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)  # fmt: skip
