"""gold.visitor_hours: visitors of each site per hour, with any request."""

from __future__ import annotations

from tidemark.contract.expression import column, window_is_aligned
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
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
        Expectation(
            "aligned_window",
            window_is_aligned(WINDOW_SECONDS),
            "window_start",
            "Windows are aligned to the epoch and equally long.",
        ),
        Expectation("visited", column("visitors") >= 1, "visitors", "An hour has at least one visitor."),
    ),
    made=lambda meaning: COUNTS,
    tells=lambda settings: {"privacy_modes": modes_as_json(settings.privacy)},
    columns=(
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the hour."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)
