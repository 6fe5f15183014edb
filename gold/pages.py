"""gold.pages: pageviews and visitors of each page per hour."""

from __future__ import annotations

from gold._columns import HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, WindowedCounts

COUNTS = WindowedCounts(seconds=HOUR, by=("path",), where=column("pageview"), sums={"pageviews": ROWS})

TABLE = counted(
    "gold.pages",
    "One row per site, hour of event time and page. Entries and exits are in silver.sessions.",
    COUNTS,
    {
        "path": "Path of the page, without the query.",
        "pageviews": "Pageviews of the page, see silver.requests.",
        "visitors": "Distinct visitors that viewed it.",
    },
    expects=(
        Expectation(
            "viewed",
            (column("visitors") >= 1) & (column("visitors") <= column("pageviews")),
            "visitors",
            "A page has at least one visitor, and no more visitors than pageviews.",
        ),
    ),
)
