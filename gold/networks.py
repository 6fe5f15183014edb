"""gold.networks: requests and visitors per hour by kind of network and organisation."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
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
        Column("network", "string", "Kind of network, see silver.requests; empty for any other."),
        Column("as_org", "string", "Organisation, see silver.requests; empty where it is not known."),
        Column("requests", "long", "Accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)  # fmt: skip
