"""gold.searches: what people searched for on the site, per day."""

from __future__ import annotations

from gold._columns import UPDATED_AT, VISITORS_SKETCH
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table
from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

DAY_SECONDS = 86_400
COUNTS = WindowedCounts(
    seconds=DAY_SECONDS,
    start="day",
    by=(Text("term", of="search_term", most=MOST_CHARACTERS),),
    where=column("search_term").is_valid() & ~column("bot"),
    sums={"searches": ROWS},
)

TABLE = Table(
    name="gold.searches",
    about="One row per site, day (UTC) and term for which people searched on the site.",
    kind="upsert",
    key=COUNTS.key,
    time="day",
    reads="silver.requests",
    quiet=True,
    expects=(
        Expectation(
            "searched",
            (column("visitors") >= 1) & (column("visitors") <= column("searches")),
            "searches",
            "Every search is one visitor's.",
        ),
    ),
    made=lambda meaning: COUNTS,
    columns=(
        Column("site", "string", "Site."),
        Column("day", "timestamp", "Start of the day, UTC."),
        Column("term", "string", f"Term as it was sent, at most {MOST_CHARACTERS} characters; see `search_term` of"
               " silver.requests."),
        Column("searches", "long", "Requests of people with the term."),
        Column("visitors", "long", "Distinct visitors that searched for it."),
        UPDATED_AT,
        VISITORS_SKETCH,
    ),
)  # fmt: skip
