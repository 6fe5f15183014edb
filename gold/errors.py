"""gold.errors: failed requests of each path per hour."""

from __future__ import annotations

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
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the hour."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("path", "string", f"Path without the query, its first {MOST_CHARACTERS} characters; empty for a request"
               " that is not HTTP."),
        Column("status", "int", "HTTP status code."),
        Column("requests", "long", "Requests, those of bots too."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("newest_event_time", "timestamp", "Time of the newest of them."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)  # fmt: skip
