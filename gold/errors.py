"""gold.errors: failed requests of each path per hour."""

from __future__ import annotations

from gold._columns import HOUR, VISITORS, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

COUNTS = WindowedCounts(
    seconds=HOUR,
    by=(Text("path", most=MOST_CHARACTERS), "status"),
    where=column("status") >= 400,
    sums={"requests": ROWS},
    bounds={"newest_event_time": ("event_time", "max")},
)

TABLE = counted(
    "gold.errors",
    "One row per site, hour of event time, path and status of requests with a status of 400 and above.",
    COUNTS,
    {
        "path": f"Path without the query, its first {MOST_CHARACTERS} characters; empty for a request"
        " that is not HTTP.",
        "status": "HTTP status code.",
        "requests": "Requests, those of bots too.",
        "visitors": VISITORS,
        "newest_event_time": "Time of the newest of them.",
    },
    expects=(
        Expectation(
            "failed",
            (column("status") >= 400)
            & (column("requests") >= 1)
            & (column("visitors") <= column("requests")),
            "requests",
            "Somebody asked, and every request failed.",
        ),
        Expectation(
            "newest_within_the_hour",
            (column("window_start") <= column("newest_event_time"))
            & (column("newest_event_time") < column("window_end")),
            "newest_event_time",
            "The newest request is one of the hour.",
        ),
    ),
    quiet=True,
)
