"""Visitors that behave like bots, on the page Bots: people with and without them, and why each day is suspected."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from tidemark.figures import suspected
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader
from tidemark.figures.text import number, several, share, shown

from ..charts.timechart import Timed, timechart
from ..controls import actions
from ..controls.grid import count_column, grid, sheet
from ..filters import HOUR, Filters
from ..panel import SELDOM, Look, meaning, panel, some

DAYS = "silver/visitor_days"
DAY = 86_400
REASONS = {
    "a": "asked for /robots.txt",
    "b": "many pages, no assets",
    "c": "over 60 pages in a minute",
    "d": "only missing pages",
    "e": "hosting, no assets",
}


def page(reader: Reader, filters: Filters) -> None:
    people_panel(reader, filters)
    suspected_panel(reader, filters)


@panel(
    "People with and without the suspected",
    DAYS,
    every=SELDOM,
    help="Visitors per day of UTC. Suspected days are counted as people everywhere else; nothing is left out.",
    figure=suspected.beside,
)
def people_panel(look: Look) -> None:
    span, selection = replace(look.span(HOUR), bin_seconds=DAY), look.selection(HOUR)
    days = some(suspected.beside(look.rows, selection), look=look)
    sums = days.drop(columns="day").sum()
    for cell, (name, label) in zip(
        st.columns(2), (("pageviews", "Pageviews"), ("requests", "Requests of people")), strict=True
    ):
        left = share(sums[f"without_{name}"], sums[name])
        cell.metric(
            f"{label} without the suspected",
            number(sums[f"without_{name}"]),
            f"{left} of {number(sums[name])}",
            delta_color="off",
            delta_arrow="off",
            border=True,
            help=meaning("without"),
            height="stretch",
        )
    timechart(
        look,
        Timed(span, selection, days.rename(columns={"day": "bin"})),
        {"visitors": "People", "without_visitors": "Without the suspected"},
        unit="Visitors per day (UTC)",
        height=220,
        sums=False,
        links=False,
    )


@panel(
    "Visitors that may be bots",
    DAYS,
    every=SELDOM,
    help="Flagged by what they did on one day of UTC, and still counted as people: asked for /robots.txt; at least 30 "
    "pageviews without an asset where others load assets, 3 from hosting; over 60 pageviews in one minute; at least 10 "
    "requests, all of them 404.",
    figure=suspected.suspected,
)
def suspected_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    rows = some(suspected.suspected(look.rows, selection), "No visitor behaves like a bot.", look)
    views = share(rows["pageviews"].sum(), suspected.people(look.rows, selection)["pageviews"].sum())
    st.caption(f"{several(len(rows), 'visitor day')}, with {views} of these days' pageviews.")
    reasons = suspected.by_reason(rows)
    words = (
        f"{REASONS[reason]} {days:,}" for reason, days in zip(reasons["reason"], reasons["days"], strict=True)
    )
    st.caption(f"Days by reason: {'; '.join(words)}.")
    text = st.column_config.TextColumn
    counts = {
        "requests": "Requests",
        "pageviews": "Pageviews",
        "assets": "Assets",
        "not_found": "404",
        "robots_txt": "robots.txt",
    }
    why = ["; ".join(REASONS[r] for r in reasons.split()) for reasons in rows["reasons"]]
    table, settings = sheet(
        {
            "day": (rows["day"].dt.strftime("%Y-%m-%d"), text("Day (UTC)")),
            "site": ([shown(s) for s in rows["site"]], text("Site")),
            "visitor_id": ([shown(v)[:12] for v in rows["visitor_id"]], text("Visitor")),
            "reasons": (why, text("Why", width="medium")),
            **{name: (rows[name], count_column(label)) for name, label in counts.items()},
        }
    )
    picked = grid(table, "suspected", settings, rows=8, select=True)
    if picked is not None:
        _open_day(look, rows.iloc[picked])


def _open_day(look: Look, row: pd.Series) -> None:
    day = row["day"].to_pydatetime()
    selection = look.selection().shifted(day, (row["day"] + pd.Timedelta(days=1)).to_pydatetime())
    where = (Where("site", "=", row["site"]), Where("visitor_id", "=", row["visitor_id"]))
    st.button(
        "Show the requests of this day",
        key="suspected-requests",
        on_click=actions.open_view,
        args=(actions.Requests(selection, where),),
    )
