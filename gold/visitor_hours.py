"""gold.visitor_hours: visitors of each site per hour, with any request."""

from __future__ import annotations

from gold._columns import UPDATED_AT, VISITORS, VISITORS_SKETCH, aligned, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Table
from tidemark.engine.counts import WindowedCounts
from tidemark.settings.privacy import modes_as_json

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(seconds=WINDOW_SECONDS, where=~column("bot"), sums={})

TABLE = Table(
    name="gold.visitor_hours",
    about="One row per site and hour of event time in which people made requests, pageviews or not. The visitors of a"
    " day are the union of its hours.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        aligned(WINDOW_SECONDS),
        Expectation("visited", column("visitors") >= 1, "visitors", "An hour has at least one visitor."),
    ),
    made=lambda meaning: COUNTS,
    tells=lambda settings: {"privacy_modes": modes_as_json(settings.privacy)},
    columns=(
        *windowed("hour"),
        VISITORS,
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)
