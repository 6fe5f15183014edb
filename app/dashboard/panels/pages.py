"""Pages: what was read, where visits begin and end, and how much was sent."""

from __future__ import annotations

from functools import partial

import streamlit as st

from tidemark.figures import overview, pages, sessions
from tidemark.figures.reader import Reader
from tidemark.figures.silver import SESSIONS, VIEW
from tidemark.figures.text import clipped, shown

from ..charts.timechart import timechart, timed
from ..controls import compared, moved
from ..controls.actions import filters_by, is_filter
from ..controls.grid import (
    TEXT_WIDTH,
    bar_column,
    count_column,
    grid_with_actions,
    percent_column,
    sheet,
    texts,
)
from ..filters import Filters
from ..panel import Look, beside, meaning, panel, some

TRAFFIC = "gold/traffic"
PAGES = "gold/pages"
VIEWS = (VIEW,)
LISTED = 1000
PATH_SHOWN = 200


def page(reader: Reader, filters: Filters) -> None:
    pages_panel(reader, filters)
    beside(reader, filters, entry_panel, exit_panel)
    beside(reader, filters, requests_panel, bytes_panel)


@panel(
    "Top pages",
    PAGES,
    help="Entries and exits are of sessions that started in the range.",
    requests=VIEWS,
    figure=pages.pages,
)
def pages_panel(look: Look) -> None:
    selection = look.selection()
    if look.reader.version(SESSIONS) is None:
        rows = pages.pages(look.rows, selection, LISTED)
    else:
        rows = pages.with_sessions(look.rows, selection, LISTED)
    some(rows, look=look)
    table = rows.assign(path=[clipped(shown(p), PATH_SHOWN) for p in rows["path"]])
    table.insert(2, "change", compared.ratios(compared.of_rows(look, rows, selection, pages.COUNTED)))
    if "bounces" in table:
        table["bounced"] = (table.pop("bounces") / table["entries"].where(table["entries"] > 0)).round(3)
    settings = {
        "path": st.column_config.TextColumn("Path", width=TEXT_WIDTH),
        "pageviews": bar_column("Pageviews", rows["pageviews"].max()),
        "change": compared.column(look, selection),
        "visitors": count_column("Visitors", meaning("visitors")),
        "entries": count_column("Entries", meaning("entries")),
        "exits": count_column("Exits", meaning("exits")),
        "bounced": percent_column("Bounced", "Of the sessions that began here, those with no second page."),
    }
    filters = filters_by(rows, "path")
    grid_with_actions(table, "pages", settings, filters, selection, rows=14, where=VIEWS)


def _ends(look: Look, column: str, heading: str) -> None:
    selection = look.selection()
    rows = some(sessions.by(look.rows, selection, column, LISTED), look=look)
    changes = compared.of_rows(look, rows, selection, sessions.counted(column))
    table, settings = sheet(
        {
            "page": (
                texts(rows[column], PATH_SHOWN),
                st.column_config.TextColumn(heading, width=TEXT_WIDTH),
            ),
            "sessions": (rows["sessions"], bar_column("Sessions", rows["sessions"].max())),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "bounced": ((rows["bounces"] / rows["sessions"]).round(3), percent_column("Bounced")),
        }
    )
    field = "entry_page" if column == "entry_page" else "path"
    filters = [(is_filter(field, p),) for p in rows[column]]
    grid_with_actions(table, f"sessions-{column.replace('_', '-')}s", settings, filters, selection, rows=8)


@panel("Top entry pages", SESSIONS, requests=VIEWS, figure=partial(sessions.by, column="entry_page"))
def entry_panel(look: Look) -> None:
    _ends(look, "entry_page", "Entry page")


@panel("Top exit pages", SESSIONS, requests=VIEWS, figure=partial(sessions.by, column="exit_page"))
def exit_panel(look: Look) -> None:
    _ends(look, "exit_page", "Exit page")


@panel("Requests", TRAFFIC, requests=())
def requests_panel(look: Look) -> None:
    _over_time(look, "requests", ",.0f")


@panel("Bytes sent", TRAFFIC, requests=())
def bytes_panel(look: Look) -> None:
    _over_time(look, "bytes", ".3s")


def _over_time(look: Look, name: str, form: str) -> None:
    counts = timed(look, partial(overview.over_time, visitors=False))
    moved.offer(look, counts.selection, name)
    label = name.capitalize()
    timechart(look, counts, {name: label}, unit=counts.per_bin(label), kind="area", number=form)
