"""gold.formats: the log formats of each site's lines per day."""

from __future__ import annotations

from gold._columns import UPDATED_AT, VISITORS, VISITORS_SKETCH, windowed
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
        *windowed("day"),
        Column("format", "string", "Log format by which the lines were read, see silver.requests."),
        Column("requests", "long", "Accepted lines of the format."),
        Column("first_event_time", "timestamp", "Time in the first of them."),
        Column("newest_event_time", "timestamp", "Time in the newest of them."),
        VISITORS,
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)
