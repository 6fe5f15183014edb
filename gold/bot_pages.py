"""gold.bot_pages: what declared bots read, per day."""

from __future__ import annotations

from gold._columns import DAY, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

COUNTS = WindowedCounts(
    seconds=DAY,
    start="day",
    by=(Text("bot_name"), Text("path", most=MOST_CHARACTERS)),
    where=column("bot"),
    sums={"requests": ROWS},
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
    },
    expects=(Expectation("requested", column("requests") >= 1, "requests", "The bot made a request."),),
    quiet=True,
)
