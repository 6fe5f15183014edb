"""gold.visitors_by_country: visitors per country in 5-minute windows."""

from __future__ import annotations

from tidemark.contract.expression import column, window_is_aligned
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
        Expectation(
            "aligned_window",
            window_is_aligned(WINDOW_SECONDS),
            "window_start",
            "Windows are aligned to the epoch and equally long.",
        ),
        Expectation(
            "people_and_bots",
            (column("pageviews") + column("bot_requests") <= column("requests"))
            & (column("visitors") <= column("requests") - column("bot_requests")),
            "requests",
            "Bots make no pageviews, and every visitor makes a request.",
        ),
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
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the window, aligned to the epoch."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("country", "string", "ISO 3166-1 alpha-2; ZZ where unknown."),
        Column("visitors", "long", "Distinct visitors that are not bots."),
        Column("pageviews", "long", "Pageviews, see silver.requests."),
        Column("requests", "long", "All accepted requests."),
        Column("bot_requests", "long", "Requests of known crawlers."),
        Column("updated_at", "timestamp", "When the row last changed."),
        Column("visitors_sketch", "binary", "Theta sketch behind `visitors`: unite those of several rows."),
    ),
)
