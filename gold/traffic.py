"""gold.traffic: requests, visitors, bytes and status classes per minute."""

from __future__ import annotations

from gold._columns import PEOPLE_AND_BOTS, UPDATED_AT, VISITORS, VISITORS_SKETCH, aligned, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Sum, WindowedCounts

WINDOW_SECONDS = 60
STATUS_CLASSES = (2, 3, 4, 5)
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    sums={
        "requests": ROWS,
        "pageviews": Sum("pageview"),
        "bot_requests": Sum("bot"),
        "bytes": Sum("bytes"),
        **{f"status_{c}xx": Sum("status", within=(c * 100, c * 100 + 99)) for c in STATUS_CLASSES},
    },
)

TABLE = Table(
    name="gold.traffic",
    about="One row per site and minute of event time.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    volume="requests",
    expects=(
        aligned(WINDOW_SECONDS),
        PEOPLE_AND_BOTS,
        Expectation(
            "status_classes",
            column("status_2xx") + column("status_3xx") + column("status_4xx") + column("status_5xx")
            <= column("requests"),
            "requests",
            "Every response is in at most one status class.",
        ),
    ),
    made=lambda meaning: COUNTS,
    now=True,
    columns=(
        *windowed("minute"),
        Column("requests", "long", "All accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        VISITORS,
        Column("bot_requests", "long", "Requests of known crawlers."),
        Column("bytes", "long", "Bytes of all responses."),
        *(
            Column(f"status_{c}xx", "long", f"Responses with a status of {c}00 to {c}99.")
            for c in STATUS_CLASSES
        ),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)
