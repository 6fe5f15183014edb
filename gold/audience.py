"""gold.audience: requests and visitors per hour by kind of bot, country, device, browser and system."""

from __future__ import annotations

from gold._columns import HOUR, PARTS_OF_REQUESTS, VISITORS, counted
from tidemark.engine.counts import ROWS, Sum, Text, WindowedCounts

COUNTS = WindowedCounts(
    seconds=HOUR,
    by=tuple(map(Text, ("bot_kind", "country", "device", "browser", "os"))),
    sums={"requests": ROWS, "pageviews": Sum("pageview"), "bytes": Sum("bytes")},
)

TABLE = counted(
    "gold.audience",
    "One row per site, hour of event time, kind of bot, country, device, browser and system: answers a filter of"
    " these fields.",
    COUNTS,
    {
        "bot_kind": "Kind of the bot, see silver.requests; empty for people.",
        "country": "ISO 3166-1 alpha-2; ZZ where unknown.",
        "device": "desktop, mobile, tablet, bot or other.",
        "browser": "Browser family.",
        "os": "Operating system family.",
        "requests": "Accepted requests.",
        "pageviews": "Pageviews, see silver.requests.",
        "bytes": "Bytes of all responses.",
        "visitors": VISITORS,
    },
    expects=(PARTS_OF_REQUESTS,),
)
