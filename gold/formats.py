"""gold.formats: the log formats of each site's lines per day."""

from __future__ import annotations

from gold._columns import DAY, VISITORS, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, WindowedCounts

COUNTS = WindowedCounts(
    seconds=DAY,
    by=("format",),
    sums={"requests": ROWS},
    bounds={"first_event_time": ("event_time", "min"), "newest_event_time": ("event_time", "max")},
)

TABLE = counted(
    "gold.formats",
    "One row per site, day of event time (UTC) and log format.",
    COUNTS,
    {
        "format": "Log format by which the lines were read, see silver.requests.",
        "requests": "Accepted lines of the format.",
        "first_event_time": "Time in the first of them.",
        "newest_event_time": "Time in the newest of them.",
        "visitors": VISITORS,
    },
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
)
