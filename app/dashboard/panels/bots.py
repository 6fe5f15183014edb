"""Bots: who they are, what they read, what they cost, and visitors that behave like bots."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tidemark.figures import bots
from tidemark.figures.reader import Reader
from tidemark.figures.text import number, percent, shown

from ..charts.timechart import stacked, timed
from ..controls import compared, moved
from ..controls.actions import filters_by
from ..controls.grid import bar_column, count_column, grid_with_actions, percent_column, sheet, texts
from ..controls.toplist import toplist
from ..filters import HOUR, Filters
from ..kinds import kind_name
from ..panel import Look, beside, meaning, panel, some
from . import ai, identity, suspects

BOTS = "gold/bots"
PAGES = "gold/bot_pages"
BOT = (bots.BOT,)
LISTED = 1000
NAME_SHOWN = 120
EVERY = "All bots"


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    time_panel(reader, filters)
    who_panel(reader, filters)
    beside(reader, filters, pages_panel, identity.robots_panel)
    identity.pretenders_panel(reader, filters)
    ai.page(reader, filters)
    suspects.page(reader, filters)


@panel("Summary", BOTS, requests=BOT)
def summary_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    compared.tiles(
        look,
        selection,
        lambda each: _sums(bots.bots(look.rows, each)),
        SUMMARY,
        also=moved.offers(look, selection, EXPLAINED),
    )


SUMMARY: tuple[compared.Tile, ...] = (
    ("Bots", "bots", number, None, meaning("bots")),
    ("Requests", "requests", number, None, None),
    ("Of all requests", "requests_share", percent, None, None),
    ("Of all bytes", "bytes_share", percent, None, None),
    ("Asked for robots.txt", "robots_txt", number, None, None),
    ("Forged requests", "forged", number, False, meaning("verified")),
)
# The tiles' metrics of *What moved*.
EXPLAINED = {"requests": "bot_requests", "requests_share": "share_bots"}


def _sums(rows: pd.DataFrame) -> dict[str, float]:
    sums = {name: float(rows[name].sum()) for name in ("requests", "requests_share", "bytes_share")}
    names = rows["bot_name"]
    return sums | {
        "bots": float(names.nunique()),
        "robots_txt": float(names[rows["robots_txt"] > 0].nunique()),
        "forged": float(rows.loc[rows["bot_verified"] == bots.FORGED, "requests"].sum()),
    }


@panel("Requests by kind", BOTS, requests=BOT)
def time_panel(look: Look) -> None:
    counts = timed(look, bots.over_time, "No bot in this range.", finest=HOUR, hours=True)
    moved.offer(look, counts.selection, "bot_requests")
    stacked(look, counts, "bot_kind", "requests", named=kind_name)


@panel(
    "Who they are",
    BOTS,
    help="Shares are of all requests and bytes of the selection.",
    requests=BOT,
    figure=bots.bots,
)
def who_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    rows = some(bots.bots(look.rows, selection, LISTED), "No bot in this range.", look)
    changes = compared.of_rows(look, rows, selection, bots.COUNTED)
    text = st.column_config.TextColumn
    table, settings = sheet(
        {
            "bot_name": ([n or "(not named)" for n in texts(rows["bot_name"], NAME_SHOWN)], text("Bot")),
            "requests": (rows["requests"], bar_column("Requests", rows["requests"].max())),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "bot_kind": ([kind_name(k) or "(none)" for k in rows["bot_kind"]], text("Kind")),
            "bot_verified": (
                [v or "not verifiable" for v in rows["bot_verified"]],
                text("Identity", help=meaning("verified")),
            ),
            "requests_share": (rows["requests_share"], percent_column("Of requests")),
            "bytes_share": (rows["bytes_share"], percent_column("Of bytes")),
            "pages": (rows["pages"], count_column("Pages", meaning("bot pages"))),
            "robots_txt": (rows["robots_txt"], count_column("robots.txt")),
            "errors": (rows["errors"], count_column("Failed")),
            "disallowed": (rows["disallowed"], count_column("Forbidden", meaning("disallowed"))),
        }
    )
    filters = filters_by(rows, "bot_name", "bot_verified")
    grid_with_actions(table, "bots", settings, filters, selection, rows=8, where=BOT)


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
    options = [EVERY, *dict.fromkeys(n for n in names if n)]
    chosen = st.selectbox("Bot", options, key="bot-name", format_func=shown, width=240)
    name = None if chosen in (None, EVERY) else [chosen]
    rows = bots.read_by(look.rows, selection, name, LISTED)
    toplist(
        look,
        rows,
        "path",
        "requests",
        rows=9,
        finest=HOUR,
        counted=bots.counted_pages(name),
    )
