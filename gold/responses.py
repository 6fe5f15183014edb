"""gold.responses: requests and bytes per hour by status, method, protocol and host."""

from __future__ import annotations

from gold._columns import HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Number, Sum, Text, WindowedCounts

COUNTS = WindowedCounts(
    seconds=HOUR,
    by=(Number("status"), Text("method"), Text("protocol"), Text("host"), "bot"),
    sums={"requests": ROWS, "bytes": Sum("bytes")},
    visitors="none",
)

TABLE = counted(
    "gold.responses",
    "One row per site, hour of event time, status, method, protocol, host, and whether bots asked.",
    COUNTS,
    {
        "status": "HTTP status code; 0 where there was none.",
        "method": "HTTP method; empty where there is none.",
        "protocol": "Such as HTTP/1.1; empty where there is none.",
        "host": "Host of the requests; empty where the lines have none.",
        "bot": "Whether the requests are those of known crawlers.",
        "requests": "Accepted requests.",
        "bytes": "Bytes of the responses.",
    },
    expects=(
        Expectation(
            "responded",
            (column("requests") >= 1) & (column("bytes") >= 0),
            "requests",
            "Something was responded to, with no negative number of bytes.",
        ),
    ),
)
