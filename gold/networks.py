"""gold.networks: requests and visitors per hour by kind of network and organisation."""

from __future__ import annotations

from gold._columns import PARTS_OF_REQUESTS, UPDATED_AT, VISITORS, VISITORS_SKETCH, windowed
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Sum, Text, WindowedCounts

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=(Text("network"), Text("as_org")),
    sums={"requests": ROWS, "pageviews": Sum("pageview")},
)

TABLE = Table(
    name="gold.networks",
    about="One row per site, hour of event time, kind of network and organisation of the autonomous system.",
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
        Column("network", "string", "Kind of network, see silver.requests; empty for any other."),
        Column("as_org", "string", "Organisation, see silver.requests; empty where it is not known."),
        Column("requests", "long", "Accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        VISITORS,
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)  # fmt: skip
