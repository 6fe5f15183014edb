"""gold.responses: requests and bytes per hour by status, method, protocol and host."""

from __future__ import annotations

from gold._columns import UPDATED_AT, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Number, Sum, Text, WindowedCounts

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=(Number("status"), Text("method"), Text("protocol"), Text("host"), "bot"),
    sums={"requests": ROWS, "bytes": Sum("bytes")},
    visitors="none",
)

TABLE = Table(
    name="gold.responses",
    about="One row per site, hour of event time, status, method, protocol, host, and whether bots asked.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        Expectation(
            "responded",
            (column("requests") >= 1) & (column("bytes") >= 0),
            "requests",
            "Something was responded to, with no negative number of bytes.",
        ),
    ),
    made=lambda meaning: COUNTS,
    columns=(
        *windowed("hour"),
        Column("status", "int", "HTTP status code; 0 where there was none."),
        Column("method", "string", "HTTP method; empty where there is none."),
        Column("protocol", "string", "Such as HTTP/1.1; empty where there is none."),
        Column("host", "string", "Host of the requests; empty where the lines have none."),
        Column("bot", "boolean", "Whether the requests are those of known crawlers."),
        Column("requests", "long", "Accepted requests."),
        Column("bytes", "long", "Bytes of the responses."),
        UPDATED_AT,
    ),
)
