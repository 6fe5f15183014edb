"""AI operators, on the page Bots: what their crawlers take, what their assistants send back, and what they read."""

from __future__ import annotations

from functools import partial

import streamlit as st

from tidemark.figures import bots
from tidemark.figures.reader import Reader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection
from tidemark.figures.silver import SESSIONS
from tidemark.figures.text import number, shown

from ..charts.timechart import Kept, timechart, timed
from ..controls import compared
from ..controls.actions import is_filter
from ..controls.grid import bar_column, count_column, grid_with_actions, sheet, texts
from ..controls.toplist import toplist
from ..filters import DAY, HOUR, Filters
from ..panel import SELDOM, Look, beside, meaning, panel, some

BOTS = "gold/bots"
PAGES = "gold/bot_pages"
LISTED = 100
NAME_SHOWN = 60
VISITORS = is_filter("channel", bots.AI_ASSISTANTS)
VISITS: Kept = ((VISITORS,), ())


def page(reader: Reader, filters: Filters) -> None:
    ai_panel(reader, filters)
    beside(reader, filters, operators_panel, operator_panel)


AI: tuple[compared.Tile, ...] = (
    ("AI crawls", "crawls", number, None, meaning("ai crawls")),
    ("Visits from AI assistants", "visits", number, True, meaning("ai visits")),
)


@panel(
    "AI: what crawlers take, and visits that assistants send",
    BOTS,
    SESSIONS,
    every=SELDOM,
    help="Requests of AI crawlers beside sessions that began with a click in an AI assistant.",
    figure=partial(bots.ai, bin_seconds=DAY),
)
def ai_panel(look: Look) -> None:
    message = "No AI crawler, and no visit from an assistant, in this range."
    visits = timed(look, bots.ai, message, finest=HOUR, hours=True)
    selection, seconds = visits.selection, visits.span.bin_seconds

    def sums(each: Selection) -> dict[str, float | None]:
        counts = bots.ai(look.rows, each, seconds)
        return {name: float(counts[name].sum()) for name in ("crawls", "visits")}

    compared.tiles(look, selection, sums, AI)
    kept: dict[str, Kept] = {
        "AI crawlers": ((is_filter("bot_kind", bots.AI_CRAWLER),), ()),
        "Visits from AI assistants": VISITS,
    }
    names = {"crawls": "AI crawlers", "visits": "Visits from AI assistants"}
    timechart(look, visits, names, unit=visits.per_bin("Count"), height=220, kept=kept)
    purposes = bots.ai_purposes(look.rows, selection, seconds)
    words = ", ".join(f"{shown(p) or 'unknown'} {n:,}" for p, n in purposes.itertuples(index=False))
    if words:
        st.caption(f"Crawls by purpose: {words}.")


@panel(
    "AI operators: pages crawled, visits sent",
    BOTS,
    SESSIONS,
    every=SELDOM,
    help="Pages that an operator's bots fetched, beside sessions that its assistants sent; without forged bots.",
    figure=bots.ai_operators,
)
def operators_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    operators = some(
        bots.ai_operators(look.rows, selection).head(LISTED), "No AI operator in this range.", look
    )
    filters = [
        filters_of(look.rows, operator, names)
        for operator, names in zip(operators["operator"], operators["bots"], strict=True)
    ]
    text, decimal = st.column_config.TextColumn, st.column_config.NumberColumn
    crawled = bar_column("Pages crawled", operators["crawled"].max(), meaning("crawled"))
    table, columns = sheet(
        {
            "operator": (texts(operators["operator"], NAME_SHOWN), text("Operator")),
            "crawled": (operators["crawled"], crawled),
            "referred": (operators["referred"], count_column("Visits sent", meaning("referred"))),
            "ratio": (operators["ratio"], decimal("Pages per visit", format="%.1f", help=meaning("ratio"))),
            "bots": ([", ".join(map(shown, names)) for names in operators["bots"]], text("Bots")),
        }
    )
    grid_with_actions(table, "ai-operators", columns, filters, selection, rows=9)


def filters_of(rows: Rows, operator: str, names: list[str]) -> tuple[Filter, ...]:
    """Keeps what an operator's bots ask for, or the visits from its assistants where it has no bots."""
    if not names:
        return (VISITORS, Filter("source", "is", bots.sources_of(rows, operator)))
    return (Filter("bot_name", "is", tuple(names)), Filter("bot_kind", "is not", (bots.FORGED,)))


@panel(
    "One AI operator",
    BOTS,
    PAGES,
    SESSIONS,
    every=SELDOM,
    help="Pages crawled and visits sent over time, and what the operator's bots ask for most; without forged bots.",
)
def operator_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    operators = some(
        bots.ai_operators(look.rows, selection).head(LISTED), "No AI operator in this range.", look
    )
    operator = st.selectbox(
        "Operator", list(operators["operator"]), key="ai-operator", format_func=shown, width=240
    )
    names = operators.loc[operators["operator"] == operator, "bots"].iloc[0]
    counts = timed(look, partial(bots.ai_operator_over_time, operator=operator), finest=HOUR, hours=True)
    crawls: Kept = ((Filter("bot_kind", "is not", ("", bots.FORGED)),), (bots.named(names),))
    timechart(
        look,
        counts,
        {"crawled": "Pages crawled", "referred": "Visits sent"},
        unit=counts.per_bin("Count"),
        height=180,
        kept={"Pages crawled": crawls, "Visits sent": VISITS},
    )
    read = bots.read_by_operator(look.rows, selection, names, LISTED)
    if not read.empty:
        toplist(look, read, "path", "requests", rows=5, finest=HOUR)
