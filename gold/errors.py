"""gold.errors: failed requests of each path per hour."""

from __future__ import annotations

from gold._columns import UPDATED_AT, VISITORS, VISITORS_SKETCH, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=(Text("path", most=MOST_CHARACTERS), "status"),
    where=column("status") >= 400,
    sums={"requests": ROWS},
    bounds={"newest_event_time": ("event_time", "max")},
)

TABLE = Table(
    name="gold.errors",
    about="One row per site, hour of event time, path and status of requests with a status of 400 and above.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    quiet=True,
    expects=(
        Expectation(
            "failed",
            (column("status") >= 400) & (column("requests") >= 1) & (column("visitors") <= column("requests")),
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
    made=lambda meaning: COUNTS,
    columns=(
        *windowed("hour"),
        Column("path", "string", f"Path without the query, its first {MOST_CHARACTERS} characters; empty for a request"
               " that is not HTTP."),
        Column("status", "int", "HTTP status code."),
        Column("requests", "long", "Requests, those of bots too."),
        VISITORS,
        Column("newest_event_time", "timestamp", "Time of the newest of them."),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)  # fmt: skip
