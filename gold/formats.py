"""gold.formats: the log formats of each site's lines per day."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, WindowedCounts

WINDOW_SECONDS = 86_400
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=("format",),
    sums={"requests": ROWS},
    bounds={"first_event_time": ("event_time", "min"), "newest_event_time": ("event_time", "max")},
)

TABLE = Table(
    name="gold.formats",
    about="One row per site, day of event time (UTC) and log format.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        Expectation(
            "lines_within_the_day",
            (column("window_start") <= column("first_event_time"))
            & (column("first_event_time") <= column("newest_event_time"))
            & (column("requests") >= 1),
            "requests",
            "A format of a day has at least one line, and none before the day.",
        ),
    ),
    made=lambda meaning: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the day."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("format", "string", "Log format by which the lines were read, see silver.requests."),
        Column("requests", "long", "Accepted lines of the format."),
        Column("first_event_time", "timestamp", "Time in the first of them."),
        Column("newest_event_time", "timestamp", "Time in the newest of them."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)
