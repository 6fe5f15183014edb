"""Columns and rules that several tables of this layer have. No table itself, so its name begins with an underscore."""

from __future__ import annotations

from tidemark.contract.expression import column, window_is_aligned
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column

VISITORS = Column("visitors", "long", "Distinct visitors that are not bots.")
UPDATED_AT = Column("updated_at", "timestamp", "When the row last changed.")
VISITORS_SKETCH = Column(
    "visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."
)

PARTS_OF_REQUESTS = Expectation(
    "parts_of_requests",
    (column("requests") >= 1)
    & (column("pageviews") <= column("requests"))
    & (column("visitors") <= column("requests")),
    "requests",
    "Somebody made a request, and every pageview and visitor needs one.",
)
PEOPLE_AND_BOTS = Expectation(
    "people_and_bots",
    (column("pageviews") + column("bot_requests") <= column("requests"))
    & (column("visitors") <= column("requests") - column("bot_requests")),
    "requests",
    "Bots make no pageviews, and every visitor makes a request.",
)


def windowed(period: str) -> tuple[Column, ...]:
    """The columns of a site and a window. `period`: what the window is, such as an hour."""
    return (
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", f"Start of the {period}."),
        Column("window_end", "timestamp", "Its exclusive end."),
    )


def aligned(seconds: int) -> Expectation:
    """Windows of so many seconds lie where they should."""
    return Expectation(
        "aligned_window",
        window_is_aligned(seconds),
        "window_start",
        "Windows are aligned to the epoch and equally long.",
    )
