"""gold.visitors_by_country: visitors per country in 5-minute windows."""

from __future__ import annotations

from gold._columns import PEOPLE_AND_BOTS, UPDATED_AT, VISITORS, VISITORS_SKETCH, aligned, windowed
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Sum, WindowedCounts

WINDOW_SECONDS = 300
COUNTS = WindowedCounts(
    seconds=WINDOW_SECONDS,
    by=("country",),
    sums={"pageviews": Sum("pageview"), "requests": ROWS, "bot_requests": Sum("bot")},
)

TABLE = Table(
    name="gold.visitors_by_country",
    about="One row per site, 5-minute event-time window and country.",
    kind="upsert",
    key=COUNTS.key,
    time="window_start",
    reads="silver.requests",
    expects=(
        aligned(WINDOW_SECONDS),
        PEOPLE_AND_BOTS,
        Expectation(
            "something_counted",
            (column("requests") >= 1)
            & (column("visitors") >= 0)
            & (column("pageviews") >= 0)
            & (column("bot_requests") >= 0),
            "requests",
            "A window has at least one request, and no negative count.",
        ),
        Expectation(
            "country_code",
            column("country").matches("[A-Z]{2}"),
            "country",
            "An ISO 3166-1 alpha-2 code, or ZZ.",
        ),
    ),
    made=lambda meaning: COUNTS,
    now=True,
    columns=(
        *windowed("window, aligned to the epoch"),
        Column("country", "string", "ISO 3166-1 alpha-2; ZZ where unknown."),
        VISITORS,
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("requests", "long", "All accepted requests."),
        Column("bot_requests", "long", "Requests of known crawlers."),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)
