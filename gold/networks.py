"""gold.networks: requests and visitors per hour by kind of network and organisation."""

from __future__ import annotations

from gold._columns import HOUR, PARTS_OF_REQUESTS, VISITORS, counted
from tidemark.engine.counts import ROWS, Sum, Text, WindowedCounts

COUNTS = WindowedCounts(
    seconds=HOUR,
    by=(Text("network"), Text("as_org")),
    sums={"requests": ROWS, "pageviews": Sum("pageview")},
)

TABLE = counted(
    "gold.networks",
    "One row per site, hour of event time, kind of network and organisation of the autonomous system.",
    COUNTS,
    {
        "network": "Kind of network, see silver.requests; empty for any other.",
        "as_org": "Organisation, see silver.requests; empty where it is not known.",
        "requests": "Accepted requests.",
        "pageviews": "Pageviews, see silver.requests.",
        "visitors": VISITORS,
    },
    expects=(PARTS_OF_REQUESTS,),
)
