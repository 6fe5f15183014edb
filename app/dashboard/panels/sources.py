"""Sources: which channels, sources and campaigns bring sessions, and how many of these bounce."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tidemark.figures import sources
from tidemark.figures.reader import Reader
from tidemark.figures.silver import SESSIONS, VIEW
from tidemark.figures.text import clipped, shown

from ..charts.timechart import stacked, timed
from ..controls import compared, moved
from ..controls.actions import Whole, filters_by
from ..controls.grid import bar_column, count_column, grid_with_actions, percent_column
from ..controls.toplist import toplist
from ..filters import Filters
from ..panel import Look, beside, meaning, panel, some

VIEWS = (VIEW,)
LISTED = 1000
TEXT_SHOWN = 120


def page(reader: Reader, filters: Filters) -> None:
    time_panel(reader, filters)
    beside(reader, filters, channels_panel, sources_panel)
    campaigns_panel(reader, filters)
    every_panel(reader, filters)


def channel_name(channel: str) -> str:
    return (channel[:1].upper() + channel[1:]).replace("Ai ", "AI ").replace("Sms", "SMS") or "(none)"


def source_name(source: str) -> str:
    return source or "Direct / none"


@panel("Sessions by channel", SESSIONS, help="By the session's first pageview.", requests=VIEWS)
def time_panel(look: Look) -> None:
    counts = timed(look, sources.over_time)
    moved.offer(look, counts.selection, "sessions")
    stacked(look, counts, "channel", "sessions", named=channel_name)


@panel("Channels", SESSIONS, help=meaning("channel"), requests=VIEWS, figure=sources.sources)
def channels_panel(look: Look) -> None:
    rows = sources.sources(look.rows, look.selection(), ["channel"])
    toplist(
        look,
        rows,
        "channel",
        "sessions",
        named=channel_name,
        rows=9,
        counted=sources.counted(["channel"]),
    )


@panel("Top sources", SESSIONS, help=meaning("source"), requests=VIEWS, figure=sources.sources)
def sources_panel(look: Look) -> None:
    rows = sources.sources(look.rows, look.selection(), ["source"], LISTED)
    toplist(
        look,
        rows,
        "source",
        "sessions",
        named=source_name,
        rows=9,
        whole=Whole("Sources", all_sources),
        counted=sources.counted(["source"]),
    )


def all_sources(look: Look) -> None:
    _table(look, sources.sources(look.rows, look.selection(), ["source"], LISTED), "all-sources", rows=14)


@panel(
    "Campaigns", SESSIONS, help="Sessions whose first page had utm_campaign in its address.", requests=VIEWS
)
def campaigns_panel(look: Look) -> None:
    rows = sources.sources(look.rows, look.selection(), ["campaign", "medium", "source"])
    rows = some(
        rows[rows["campaign"] != ""].head(LISTED).reset_index(drop=True),
        "No session of this range came from a campaign.",
        look,
    )
    _table(look, rows, "campaigns", rows=8)


@panel("Channels, sources and campaigns", SESSIONS, figure=sources.sources)
def every_panel(look: Look) -> None:
    _table(look, sources.sources(look.rows, look.selection(), limit=LISTED), "sources", rows=10)


LABELS = {"channel": "Channel", "source": "Source", "medium": "Medium", "campaign": "Campaign"}


def _table(look: Look, listed: pd.DataFrame, name: str, *, rows: int) -> None:
    """Counts by any of channel, source, medium and campaign, of which the first two can be filtered by."""
    some(listed, look=look)
    selection = look.selection()
    by = [column for column in listed.columns if column in LABELS]
    changes = compared.of_rows(look, listed, selection, sources.counted(by))
    texts = {column: [clipped(shown(v), TEXT_SHOWN) for v in listed[column]] for column in by}
    if "channel" in texts:
        texts["channel"] = [channel_name(c) for c in listed["channel"]]
    table = pd.DataFrame(texts).assign(
        sessions=listed["sessions"],
        change=compared.ratios(changes),
        visitors=listed["visitors"],
        bounced=(listed["bounces"] / listed["sessions"]).round(3),
        pages=(listed["pageviews"] / listed["sessions"]).round(1),
    )
    settings = {column: st.column_config.TextColumn(LABELS[column]) for column in by} | {
        "sessions": bar_column("Sessions", table["sessions"].max(), meaning("sessions")),
        "change": compared.column(look, selection),
        "visitors": count_column("Visitors"),
        "bounced": percent_column("Bounced", meaning("bounce_rate")),
        "pages": st.column_config.NumberColumn("Pages per session", format="%.1f"),
    }
    fields = [column for column in by if column in ("channel", "source")]
    filters = filters_by(listed, *fields)
    grid_with_actions(table, name, settings, filters, selection, rows=rows)
