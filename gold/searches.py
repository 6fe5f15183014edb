"""gold.searches: what people searched for on the site, per day."""

from __future__ import annotations

from gold._columns import DAY, counted
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.engine.counts import ROWS, Text, WindowedCounts
from tidemark.figures.silver import MOST_CHARACTERS

COUNTS = WindowedCounts(
    seconds=DAY,
    start="day",
    by=(Text("term", of="search_term", most=MOST_CHARACTERS),),
    where=column("search_term").is_valid() & ~column("bot"),
    sums={"searches": ROWS},
)

TABLE = counted(
    "gold.searches",
    "One row per site, day (UTC) and term for which people searched on the site.",
    COUNTS,
    {
        "term": f"Term as it was sent, at most {MOST_CHARACTERS} characters; see `search_term` of"
        " silver.requests.",
        "searches": "Requests of people with the term.",
        "visitors": "Distinct visitors that searched for it.",
    },
    expects=(
        Expectation(
            "searched",
            (column("visitors") >= 1) & (column("visitors") <= column("searches")),
            "searches",
            "Every search is one visitor's.",
        ),
    ),
    quiet=True,
)
