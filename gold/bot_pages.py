"""gold.bot_pages: what declared bots read, per day."""

from __future__ import annotations

from gold._columns import UPDATED_AT
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

DAY_SECONDS = 86_400
COUNTS = WindowedCounts(
    seconds=DAY_SECONDS,
    start="day",
    by=(Text("bot_name"), Text("path", most=MOST_CHARACTERS)),
    where=column("bot"),
    sums={"requests": ROWS},
    visitors="none",
)

TABLE = Table(
    name="gold.bot_pages",
    about="One row per site, day (UTC), bot that names itself in its user agent, and path.",
    kind="upsert",
    key=COUNTS.key,
    time="day",
    reads="silver.requests",
    quiet=True,
    expects=(Expectation("requested", column("requests") >= 1, "requests", "The bot made a request."),),
    made=lambda meaning: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("day", "timestamp", "Start of the day, UTC."),
        Column("bot_name", "string", "Name of the bot, see silver.requests; empty in rows from before it had one."),
        Column("path", "string", f"Path without the query, its first {MOST_CHARACTERS} characters."),
        Column("requests", "long", "Accepted requests."),
        UPDATED_AT,
    ),
)  # fmt: skip
