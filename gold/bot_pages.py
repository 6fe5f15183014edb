"""gold.bot_pages: what declared bots read, per day."""

from __future__ import annotations

from gold._columns import DAY, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Sum, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

COUNTS = WindowedCounts(
    seconds=DAY,
    start="day",
    by=(Text("bot_name"), Text("path", most=MOST_CHARACTERS)),
    where=column("bot"),
    sums={"requests": ROWS, "forged": Sum(where=column("bot_verified") == "forged")},
    visitors="none",
)

TABLE = counted(
    "gold.bot_pages",
    "One row per site, day (UTC), bot that names itself in its user agent, and path.",
    COUNTS,
    {
        "bot_name": "Name of the bot, see silver.requests; empty in rows from before it had one.",
        "path": f"Path without the query, its first {MOST_CHARACTERS} characters.",
        "requests": "Accepted requests.",
        "forged": "Those of forged bots, see `bot_verified` of silver.requests.",
    },
    expects=(
        Expectation(
            "requested",
            (column("requests") >= 1)
            & (column("forged").is_null() | (column("forged") <= column("requests"))),
            "requests",
            "The bot made a request, and no more forged ones than all.",
        ),
    ),
    quiet=True,
)
