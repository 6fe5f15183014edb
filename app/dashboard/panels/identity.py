"""Whether bots are who they say, and whether they follow robots.txt, on the page Bots."""

from __future__ import annotations

import streamlit as st

from tidemark.figures import bots
from tidemark.figures.query import Where

from ..controls.actions import filters_by
from ..controls.grid import bar_column, count_column, grid_with_actions, percent_column, sheet, texts
from ..filters import HOUR
from ..kinds import kind_name
from ..panel import SELDOM, Look, meaning, panel, some

BOTS = "gold/bots"
LISTED = 300
NAME_SHOWN = 120
FORGED = (Where("bot_verified", "=", bots.FORGED),)
FORBIDDEN = (Where("disallowed", "=", True),)


@panel(
    "Who pretends to be a bot",
    BOTS,
    every=SELDOM,
    help="Bots whose address is in no network that their operator publishes, by where they come from.",
    requests=FORGED,
    figure=bots.pretenders,
)
def pretenders_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    rows = some(
        bots.pretenders(look.rows, selection, LISTED),
        "Every bot whose operator publishes networks comes from these.",
    )
    text = st.column_config.TextColumn
    table, columns = sheet(
        {
            "bot_name": (texts(rows["bot_name"], NAME_SHOWN), text("Pretends to be")),
            "requests": (rows["requests"], bar_column("Requests", rows["requests"].max())),
            "addresses": (rows["addresses"], count_column("Addresses")),
            "network": (
                [kind_name(name) or "Other" for name in rows["network"]],
                text("Network", help=meaning("network")),
            ),
            "as_org": (texts(rows["as_org"], NAME_SHOWN), text("Organisation")),
        }
    )
    forged = rows.assign(bot_verified=bots.FORGED)
    filters = filters_by(forged, "bot_name", "network", "as_org", "bot_verified")
    grid_with_actions(table, "pretenders", columns, filters, selection, rows=8)


@panel(
    "Who ignores robots.txt",
    BOTS,
    every=SELDOM,
    help="Requests that the site's robots.txt forbids to the bot: the setting robots of a site names the file.",
    requests=FORBIDDEN,
)
def robots_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    rows = bots.bots(look.rows, selection)
    rows = some(
        rows[rows["disallowed"] > 0].sort_values("disallowed", ascending=False, kind="stable").head(LISTED),
        "No bot asked for what robots.txt forbids, or no site names its robots.txt.",
    )
    text = st.column_config.TextColumn
    most = rows["disallowed"].max()
    table, columns = sheet(
        {
            "bot_name": ([n or "(not named)" for n in texts(rows["bot_name"], NAME_SHOWN)], text("Bot")),
            "disallowed": (rows["disallowed"], bar_column("Forbidden requests", most, meaning("disallowed"))),
            "share": (rows["disallowed"] / rows["requests"], percent_column("Of its requests")),
            "robots_txt": (rows["robots_txt"], count_column("Read robots.txt")),
            "bot_verified": (
                [each or "not verifiable" for each in rows["bot_verified"]],
                text("Identity", help=meaning("verified")),
            ),
        }
    )
    table, filters = table.reset_index(drop=True), filters_by(rows, "bot_name", "bot_verified")
    grid_with_actions(table, "robots", columns, filters, selection, rows=9, where=FORBIDDEN)
