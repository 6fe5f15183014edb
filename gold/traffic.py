"""gold.traffic: requests, visitors, bytes and status classes per minute."""

from __future__ import annotations

from gold._columns import MINUTE, PEOPLE_AND_BOTS, VISITORS, aligned, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Sum, WindowedCounts

STATUS_CLASSES = (2, 3, 4, 5)
COUNTS = WindowedCounts(
    seconds=MINUTE,
    sums={
        "requests": ROWS,
        "pageviews": Sum("pageview"),
        "bot_requests": Sum("bot"),
        "bytes": Sum("bytes"),
        **{f"status_{c}xx": Sum("status", within=(c * 100, c * 100 + 99)) for c in STATUS_CLASSES},
    },
)

TABLE = counted(
    "gold.traffic",
    "One row per site and minute of event time.",
    COUNTS,
    {
        "requests": "All accepted requests.",
        "pageviews": "Pageviews, see silver.requests.",
        "visitors": VISITORS,
        "bot_requests": "Requests of known crawlers.",
        "bytes": "Bytes of all responses.",
        **{f"status_{c}xx": f"Responses with a status of {c}00 to {c}99." for c in STATUS_CLASSES},
    },
    expects=(
        aligned(MINUTE),
        PEOPLE_AND_BOTS,
        Expectation(
            "status_classes",
            column("status_2xx") + column("status_3xx") + column("status_4xx") + column("status_5xx")
            <= column("requests"),
            "requests",
            "Every response is in at most one status class.",
        ),
    ),
    volume="requests",
    now=True,
)
