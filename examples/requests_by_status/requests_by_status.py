"""gold.requests_by_status: requests and distinct visitors by status code, per hour."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Sum, WindowedCounts

COUNTS = WindowedCounts(seconds=3600, by=("status",), sums={"requests": ROWS, "bytes": Sum("bytes")})

TABLE = Table(
    name="gold.requests_by_status",
    about="One row per site, hour of event time and status code.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        Expectation("requested", column("requests") >= 1, "requests", "A row has at least one request."),
    ),
    aggregation=lambda meaning: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the hour."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("status", "int", "HTTP status code."),
        Column("requests", "long", "Accepted requests with it."),
        Column("bytes", "long", "Bytes of their responses."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)
