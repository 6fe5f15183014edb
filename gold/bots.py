"""gold.bots: requests of declared bots per hour."""

from __future__ import annotations

import json

from gold._columns import HOUR, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Sum, Text, WindowedCounts
from tidemark.settings import Settings

_ROBOTS = column("path") == "/robots.txt"
_FAILED = column("status") >= 400
_PAGE = (
    (column("method") == "GET")
    & ~column("asset")
    & (column("status") < 400)
    & (column("path") != "/robots.txt")
)
COUNTS = WindowedCounts(
    seconds=HOUR,
    by=(Text("bot_name"), Text("bot_kind"), Text("bot_verified")),
    where=column("bot"),
    sums={
        "requests": ROWS,
        "pages": Sum(where=_PAGE),
        "bytes": Sum("bytes"),
        "robots_txt": Sum(where=_ROBOTS),
        "errors": Sum(where=_FAILED),
        "disallowed": Sum("disallowed"),
    },
    visitors="none",
)


def _properties(settings: Settings) -> dict[str, object]:
    # The list of crawlers takes time to load, and most commands do not need it.
    from tidemark.parse.bots import purpose_by_name
    from tidemark.parse.sources import ai_operators

    return {"ai_purposes": json.dumps(purpose_by_name()), "ai_operators": json.dumps(ai_operators())}


TABLE = counted(
    "gold.bots",
    "One row per site, hour of event time and bot that names itself in its user agent.",
    COUNTS,
    {
        "bot_name": "Name of the bot, see silver.requests; empty in rows from before it had one.",
        "bot_kind": "Kind of the bot, see silver.requests; empty likewise.",
        "bot_verified": "verified or forged, see silver.requests; empty where nobody publishes networks of the bot.",
        "requests": "Accepted requests.",
        "pages": "GETs with a status below 400 of what is neither an asset nor /robots.txt.",
        "bytes": "Bytes of all responses.",
        "robots_txt": "Requests of /robots.txt.",
        "errors": "Responses with a status of 400 and above.",
        "disallowed": "Requests that the site's robots.txt (setting `robots`) forbids to the bot; 0 without that"
        " setting.",
    },
    expects=(
        Expectation(
            "parts_of_requests",
            (column("requests") >= 1)
            & (column("pages") + column("errors") <= column("requests"))
            & (column("robots_txt") <= column("requests"))
            & (column("disallowed").is_null() | (column("disallowed") <= column("requests"))),
            "requests",
            "A bot makes a request, and no more of one kind than of all.",
        ),
    ),
    quiet=True,
    reader_settings=_properties,
)
