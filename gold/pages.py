"""gold.pages: pageviews and visitors of each page per hour."""

from __future__ import annotations

from gold._columns import UPDATED_AT, VISITORS_SKETCH, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, WindowedCounts

WINDOW_SECONDS = 3600
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS, by=("path",), where=column("pageview"), sums={"pageviews": ROWS}
)

TABLE = Table(
    name="gold.pages",
    about="One row per site, hour of event time and page. Entries and exits are in silver.sessions.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        Expectation(
            "viewed",
            (column("visitors") >= 1) & (column("visitors") <= column("pageviews")),
            "visitors",
            "A page has at least one visitor, and no more visitors than pageviews.",
        ),
    ),
    made=lambda meaning: COUNTS,
    columns=(
        *windowed("hour"),
        Column("path", "string", "Path of the page, without the query."),
        Column("pageviews", "long", "Pageviews of the page, see silver.requests."),
        Column("visitors", "long", "Distinct visitors that viewed it."),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)
