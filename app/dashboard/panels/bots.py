"""Bots: who they are, what they read, what they cost, and visitors that behave like bots."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tidemark.figures import bots, suspected
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader
from tidemark.figures.selection import Selection
from tidemark.figures.silver import SESSIONS
from tidemark.figures.text import clipped, number, percent, share, shown

from ..charts.timechart import bin_words, stacked, timechart
from ..controls import actions, compared
from ..controls.actions import Whole, is_filter
from ..controls.grid import bar_column, count_column, grid, grid_with_actions, percent_column
from ..controls.toplist import toplist
from ..filters import HOUR, Filters
from ..panel import Look, meaning, nothing, panel

BOTS = "gold/bots"
PAGES = "gold/bot_pages"
DAYS = "silver/visitor_days"
BOT = (bots.BOT,)
LISTED = 1000
NAME_SHOWN = 120
EVERY = "All bots"
REASONS = {
    "a": "asked for /robots.txt",
    "b": "many pages, no assets",
    "c": "over 60 pages in a minute",
    "d": "only missing pages",
}


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    time_panel(reader, filters)
    who_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        pages_panel(reader, filters)
    with right:
        ai_panel(reader, filters)
    suspected_panel(reader, filters)


def kind_name(kind: str) -> str:
    return (
        kind.replace("-", " ")
        .capitalize()
        .replace("Ai ", "AI ")
        .replace("Seo", "SEO")
        .replace("Http", "HTTP")
    )


@panel("Summary", BOTS, requests=BOT)
def summary_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    compared.tiles(look, selection, lambda each: _sums(bots.bots(look.rows, each)), SUMMARY)


SUMMARY: tuple[compared.Tile, ...] = (
    ("Bots", "bots", number, None, meaning("bots")),
    ("Requests", "requests", number, None, None),
    ("Of all requests", "requests_share", percent, None, None),
    ("Of all bytes", "bytes_share", percent, None, None),
    ("Asked for robots.txt", "robots_txt", number, None, None),
)


def _sums(found: pd.DataFrame) -> dict[str, float]:
    sums = {name: float(found[name].sum()) for name in ("requests", "requests_share", "bytes_share")}
    return sums | {"bots": float(len(found)), "robots_txt": float((found["robots_txt"] > 0).sum())}


@panel("Requests by kind", BOTS, requests=BOT)
def time_panel(look: Look) -> None:
    span, selection = look.span(HOUR), look.selection(HOUR)
    found = bots.over_time(look.rows, selection, span.bin_seconds)
    if found.empty:
        return nothing("No bot in this range.")
    stacked(
        look, found, "bot_kind", "requests", span=span, unit=f"Requests {bin_words(span.bin_seconds)}",
        selection=selection, field="bot_kind", named=kind_name,
        before=compared.over_time(
            look, compared.whole_hours(look, selection), span,
            lambda each: bots.over_time(look.rows, each, span.bin_seconds),
        ),
    )  # fmt: skip
    return None


@panel(
    "Who they are",
    BOTS,
    help="Shares are of all requests and bytes of the selection.",
    requests=BOT,
    figure="bots",
)
def who_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    found = bots.bots(look.rows, selection, LISTED)
    if found.empty:
        return nothing("No bot in this range.")
    table = found.assign(
        bot_name=[clipped(shown(n), NAME_SHOWN) or "(not named)" for n in found["bot_name"]],
        bot_kind=[kind_name(k) or "(none)" for k in found["bot_kind"]],
        change=compared.ratios(compared.of_rows(look, found, selection, bots.COUNTED)),
    )[
        [
            "bot_name",
            "requests",
            "change",
            "bot_kind",
            "requests_share",
            "bytes_share",
            "pages",
            "robots_txt",
            "errors",
        ]
    ]
    text = st.column_config.TextColumn
    settings = {
        "bot_name": text("Bot"),
        "bot_kind": text("Kind"),
        "requests": bar_column("Requests", table["requests"].max()),
        "change": compared.column(look, selection),
        "requests_share": percent_column("Of requests"),
        "bytes_share": percent_column("Of bytes"),
        "pages": count_column("Pages", meaning("bot pages")),
        "robots_txt": count_column("robots.txt"),
        "errors": count_column("Failed"),
    }
    picked = grid(table, "bots", settings, rows=8, select=True)
    if picked is not None:
        name = found["bot_name"][picked]
        _actions(look, name, found["bot_kind"][picked])
    return None


def _actions(look: Look, name: str, kind: str) -> None:
    """A bot has no filter of its own, so its kind filters, and its requests open by its name."""
    view = actions.Requests(look.selection(HOUR), (Where("bot_name", "=", name),))
    with st.container(horizontal=True, vertical_alignment="center"):
        actions.requests_button(view, "bot-requests", "Show its requests", icon=None)
        st.button(
            "Filter its kind",
            key="bot-kind",
            on_click=actions.add_filter,
            args=(is_filter("bot_kind", kind),),
        )


@panel(
    "What they read",
    PAGES,
    help="Counted by days of UTC: a range that is not of whole days reads lines.",
    requests=BOT,
)
def pages_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    # Asked as for the list of bots, which is remembered.
    names = bots.bots(look.rows, selection, LISTED)["bot_name"].head(50)
    options = [EVERY, *(n for n in names if n)]
    chosen = st.selectbox("Bot", options, key="bot-name", format_func=shown, width=240)
    name = None if chosen in (None, EVERY) else chosen
    found = bots.read_by(look.rows, selection, name, LISTED)
    toplist(
        look, found, "path", "requests", heading="Requests", rows=9, finest=HOUR,
        whole=Whole("What bots read", all_pages), counted=bots.counted_pages(name),
    )  # fmt: skip


def all_pages(look: Look) -> None:
    found = bots.read_by(look.rows, look.selection(HOUR), None, LISTED)
    table = found.assign(path=[clipped(shown(p), LISTED) for p in found["path"]])
    columns = {
        "path": st.column_config.TextColumn("Path", width="large"),
        "requests": bar_column("Requests", found["requests"].max()),
    }
    filters = [(is_filter("path", p),) for p in found["path"]]
    grid_with_actions(table, "bot-pages", columns, filters, look.selection(HOUR), rows=14, where=BOT)


AI: tuple[compared.Tile, ...] = (
    ("AI crawls", "crawls", number, None, meaning("ai crawls")),
    ("Visits from AI assistants", "visits", number, True, meaning("ai visits")),
)


@panel(
    "AI: what crawlers take, and visits that assistants send",
    BOTS,
    SESSIONS,
    help="Requests of AI crawlers beside sessions that began with a click in an AI assistant.",
    figure="ai",
)
def ai_panel(look: Look) -> None:
    span, selection = look.span(HOUR), look.selection(HOUR)

    def ai(each: Selection) -> pd.DataFrame:
        return bots.ai(look.rows, each, span.bin_seconds)

    found = ai(selection)
    if found.empty:
        return nothing("No AI crawler, and no visit from an assistant, in this range.")

    def sums(each: Selection) -> dict[str, float | None]:
        counts = ai(each)
        return {name: float(counts[name].sum()) for name in ("crawls", "visits")}

    compared.tiles(look, selection, sums, AI)
    timechart(
        look, found, {"crawls": "AI crawlers", "visits": "Visits from AI assistants"}, span=span,
        unit=f"Count {bin_words(span.bin_seconds)}", height=220, selection=selection,
        kept={
            "AI crawlers": ((is_filter("bot_kind", bots.AI_CRAWLER),), ()),
            "Visits from AI assistants": ((is_filter("channel", bots.AI_ASSISTANTS),), ()),
        },
        before=compared.over_time(look, compared.whole_hours(look, selection), span, ai),
    )  # fmt: skip
    purposes = bots.ai_purposes(look.rows, selection, span.bin_seconds)
    words = ", ".join(f"{shown(p) or 'unknown'} {n:,}" for p, n in purposes.itertuples(index=False))
    if words:
        st.caption(f"Crawls by purpose: {words}.")
    return None


@panel(
    "Visitors that may be bots",
    DAYS,
    help="Flagged by what they did on one day of UTC, and still counted as people: asked for /robots.txt; at least 30 "
    "pageviews without an asset where others load assets; over 60 pageviews in one minute; at least 10 requests, all "
    "of them 404.",
    figure="suspected",
)
def suspected_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    found = suspected.suspected(look.rows, selection)
    if found.empty:
        return nothing("No visitor behaves like a bot.")
    every = suspected.people(look.rows, selection).iloc[0]
    views = share(found["pageviews"].sum(), every["pageviews"])
    st.caption(f"{len(found):,} visitor days, with {views} of these days' pageviews.")
    table = pd.DataFrame(
        {
            "day": found["day"].dt.strftime("%Y-%m-%d"),
            "site": [shown(s) for s in found["site"]],
            "visitor_id": [shown(v)[:12] for v in found["visitor_id"]],
            "reasons": ["; ".join(REASONS[r] for r in reasons.split()) for reasons in found["reasons"]],
        }
        | {name: found[name] for name in ("requests", "pageviews", "assets", "not_found", "robots_txt")}
    )
    text = st.column_config.TextColumn
    settings = {
        "day": text("Day (UTC)"),
        "site": text("Site"),
        "visitor_id": text("Visitor"),
        "reasons": text("Why", width="medium"),
        "requests": count_column("Requests"),
        "pageviews": count_column("Pageviews"),
        "assets": count_column("Assets"),
        "not_found": count_column("404"),
        "robots_txt": count_column("robots.txt"),
    }
    picked = grid(table, "suspected", settings, rows=8, select=True)
    if picked is not None:
        _open_day(look, found.iloc[picked])
    return None


def _open_day(look: Look, row: pd.Series) -> None:
    day = row["day"].to_pydatetime()
    selection = look.selection().shifted(day, (row["day"] + pd.Timedelta(days=1)).to_pydatetime())
    where = (Where("site", "=", row["site"]), Where("visitor_id", "=", row["visitor_id"]))
    st.button(
        "Show the requests of this day", key="suspected-requests",
        on_click=actions.open_view, args=(actions.Requests(selection, where),),
    )  # fmt: skip
