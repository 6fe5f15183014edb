"""gold.visitor_hours: visitors of each site per hour, with any request."""

from __future__ import annotations

from gold._columns import HOUR, VISITORS, aligned, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import WindowedCounts
from tidemark.settings.privacy import modes_as_json

COUNTS = WindowedCounts(seconds=HOUR, where=~column("bot"), sums={})

TABLE = counted(
    "gold.visitor_hours",
    "One row per site and hour of event time in which people made requests, pageviews or not. The visitors of a"
    " day are the union of its hours.",
    COUNTS,
    {
        "visitors": VISITORS,
    },
    expects=(
        aligned(HOUR),
        Expectation("visited", column("visitors") >= 1, "visitors", "An hour has at least one visitor."),
    ),
    reader_settings=lambda settings: {"privacy_modes": modes_as_json(settings.privacy)},
)
