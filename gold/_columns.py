"""The contract that tables of counts share. No table itself, so its name begins with an underscore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from silver import requests
from tidemark.contract.expression import column, window_is_aligned
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import Text, WindowedCounts

MINUTE, FIVE_MINUTES, HOUR, DAY = 60, 300, 3600, 86_400  # lengths of windows
_WINDOWS = {MINUTE: "minute", FIVE_MINUTES: "window, aligned to the epoch", HOUR: "hour", DAY: "day"}

VISITORS = "Distinct visitors that are not bots."
DEFINITION = "Hash of what a match is; a changed goal is recounted over all history."
_UPDATED_AT = Column("updated_at", "timestamp", "When the row last changed.")
_VISITORS_SKETCH = Column(
    "visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."
)

_OF_REQUESTS = {each.name: each.type for each in requests.TABLE.columns}

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


def counted(name: str, about: str, counts: WindowedCounts, meanings: Mapping[str, str], **more: Any) -> Table:
    """A table of counts per window. `meanings`: its own columns, those of the key first, with their meanings; the rest
    of the contract follows from the counts. `more`: further attributes of the table, such as the `aggregation` where
    the counts depend on settings."""
    start: tuple[Column, ...] = (
        Column("window_start", "timestamp", f"Start of the {_WINDOWS[counts.seconds]}."),
        Column("window_end", "timestamp", "Its exclusive end."),
    )
    if counts.start == "day":
        start = (Column("day", "timestamp", "Start of the day, UTC."),)
    own = (Column(each, _type(each, counts), meaning) for each, meaning in meanings.items())
    sketch = (_VISITORS_SKETCH,) if counts.visitors != "none" else ()
    facts = {"reads": "silver.requests", "aggregation": lambda meaning: counts, **more}
    return Table(
        name=name,
        about=about,
        kind="upsert",
        key=counts.key,
        time=counts.start,
        columns=(Column("site", "string", "Site."), *start, *own, _UPDATED_AT, *sketch),
        **facts,
    )


def _type(name: str, counts: WindowedCounts) -> str:
    """The type of a column of counts; a number or flag of the key has that of its source's."""
    if name in counts.sums or name == "visitors":
        return "long"
    if name in counts.bounds:
        return "timestamp"
    if name in counts.histograms:
        return "counts"
    same = [each if isinstance(each, str) else each.name for each in counts.by if not isinstance(each, Text)]
    return _OF_REQUESTS[name] if name in same else "string"


def aligned(seconds: int) -> Expectation:
    """Windows of so many seconds lie where they should."""
    return Expectation(
        "aligned_window",
        window_is_aligned(seconds),
        "window_start",
        "Windows are aligned to the epoch and equally long.",
    )
