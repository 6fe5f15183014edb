"""gold.traffic: requests, visitors, bytes and status classes per minute."""

from __future__ import annotations

from tidemark.contract.expression import column, window_is_aligned
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
        Expectation(
            "aligned_window",
            window_is_aligned(WINDOW_SECONDS),
            "window_start",
            "Windows are aligned to the epoch and equally long.",
        ),
        Expectation(
            "people_and_bots",
            (column("pageviews") + column("bot_requests") <= column("requests"))
            & (column("visitors") <= column("requests") - column("bot_requests")),
            "requests",
            "Bots make no pageviews, and every visitor makes a request.",
        ),
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
