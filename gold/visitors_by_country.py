"""gold.visitors_by_country: visitors per country in 5-minute windows."""

from __future__ import annotations

from gold._columns import FIVE_MINUTES, PEOPLE_AND_BOTS, VISITORS, aligned, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Sum, WindowedCounts

COUNTS = WindowedCounts(
    seconds=FIVE_MINUTES,
    by=("country",),
    sums={"pageviews": Sum("pageview"), "requests": ROWS, "bot_requests": Sum("bot")},
)

TABLE = counted(
    "gold.visitors_by_country",
    "One row per site, 5-minute event-time window and country.",
    COUNTS,
    {
        "country": "ISO 3166-1 alpha-2; ZZ where unknown.",
        "visitors": VISITORS,
        "pageviews": "Pageviews, see silver.requests.",
        "requests": "All accepted requests.",
        "bot_requests": "Requests of known crawlers.",
    },
    expects=(
        aligned(FIVE_MINUTES),
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
    now=True,
)
