"""gold.traffic: requests, visitors, bytes and status classes per minute."""

from __future__ import annotations

from tidemark.contract.rules import Rule
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
    rules=(
        Rule(
            "aligned_window",
            f"unix_seconds(window_start) % {WINDOW_SECONDS} = 0"
            f" AND unix_seconds(window_end) - unix_seconds(window_start) = {WINDOW_SECONDS}",
            "window_start",
            "Windows are aligned to the epoch and equally long.",
        ),
        Rule(
            "people_and_bots",
            "pageviews + bot_requests <= requests AND visitors <= requests - bot_requests",
            "requests",
            "Bots make no pageviews, and every visitor makes a request.",
        ),
        Rule(
            "status_classes",
            "status_2xx + status_3xx + status_4xx + status_5xx <= requests",
            "requests",
            "Every response is in at most one status class.",
        ),
    ),
    made=lambda settings: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the minute."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("requests", "long", "All accepted requests."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("bot_requests", "long", "Requests of known crawlers."),
        Column("bytes", "long", "Bytes of all responses."),
        *(
            Column(f"status_{c}xx", "long", f"Responses with a status of {c}00 to {c}99.")
            for c in STATUS_CLASSES
        ),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)
