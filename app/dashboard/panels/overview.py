"""Overview: how much, compared with the time before, and what changed most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from tidemark.figures import countries, explain, overview, pages, sessions, silver, sources
from tidemark.figures.comparison import Change
from tidemark.figures.query import Condition
from tidemark.figures.reader import Reader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import SESSIONS, VIEW
from tidemark.figures.text import duration, number, percent

from .. import country, demo
from ..charts.timechart import timechart, timed
from ..controls import actions, address, compared, moved
from ..controls.toplist import toplist
from ..filters import DAY, Filters
from ..panel import SELDOM, EmptyError, Look, beside, meaning, panel, query_button
from .countries import audience
from .sources import source_name

TRAFFIC = "gold/traffic"
AUDIENCE = "gold/audience"
LISTED = 1000
CHART_HEIGHT = 230
MOST_MOVED = 10
PEOPLE = (silver.PEOPLE,)
VIEWS = (VIEW,)


def page(reader: Reader, filters: Filters) -> None:
    demo.intro(reader)
    summary_panel(reader, filters)
    chart_panel(reader, filters)
    beside(reader, filters, pages_panel, sources_panel, countries_panel, devices_panel)
    moved_panel(reader, filters)


@dataclass(frozen=True)
class Figure:
    """A figure of the overview: a tile, and a chart over time. `better`: whether more is (None: neither); `times` is
    what the chart multiplies its values by, and `number` is their format; `where` keeps its requests."""

    label: str
    name: str
    text: Callable[[float | None], str]
    better: bool | None
    where: tuple[Condition, ...] = ()
    unit: str = ""
    times: int = 1
    number: str = ",.0f"


FIGURES = (
    Figure("Visitors", "visitors", number, True, PEOPLE),
    Figure("Sessions", "sessions", number, True, VIEWS),
    Figure("Pageviews", "pageviews", number, True, VIEWS),
    Figure("Bounce rate", "bounce_rate", percent, False, VIEWS, "Bounce rate, %,", 100, ",.1f"),
    Figure("Session duration", "duration", duration, True, VIEWS, "Median duration, seconds,", 1, ",.1f"),
    Figure("Requests", "requests", number, None),
)
# The figure that accounts for the change of one that has no parts.
EXPLAINED = {"duration": "sessions"}
MORE_VISITORS = (
    " Visitors without a pageview, and those whose session began before the range, have no session here."
)
FOLLOW = " The first sessions follow the lines after some seconds."
OPEN = " Open sessions count as they are so far."


def chosen_figure() -> Figure:
    """The figure that the chart shows: that of the address, or the first."""
    name = address.choice().chart
    return next((figure for figure in FIGURES if figure.name == name), FIGURES[0])


@panel("Summary", TRAFFIC, SESSIONS, bare=True)
def summary_panel(look: Look) -> None:
    selection = look.selection()
    changes = overview.changes(look.rows, selection, look.extent, look.now)
    waits = bool(changes["pageviews"].now and not changes["sessions"].now and not sessions.has_any(look.rows))
    if waits:
        changes["sessions"] = Change(None, changes["sessions"].before)
    chosen = chosen_figure().name
    also = moved.offers(look, selection, {f.name: EXPLAINED.get(f.name, f.name) for f in FIGURES})
    with st.container(key="tiles"):
        for figure in FIGURES:
            change, more = changes[figure.name], ""
            if figure.name == "sessions" and waits:
                more = FOLLOW
            elif (
                figure.name == "visitors" and not waits and (change.now or 0) > (changes["sessions"].now or 0)
            ):
                more = MORE_VISITORS
            if figure.name in ("bounce_rate", "duration"):
                more = OPEN
            with st.container(key=f"tile-{'on' if figure.name == chosen else figure.name}", gap=None):
                compared.metric(
                    figure.label,
                    change,
                    figure.text(change.now),
                    figure.better,
                    meaning(figure.name) + more,
                    share=figure.name == "bounce_rate",
                    counts=figure.name != "duration",
                )
                also(figure.name)
                st.button(
                    f"Show {figure.label.lower()} over time",
                    key=f"show-{figure.name}",
                    type="tertiary",
                    on_click=actions.show_chart,
                    args=(figure.name,),
                )
    with st.container(horizontal=True, vertical_alignment="center", key="compared"):
        period = compared.period_text(look, selection)
        st.caption(period or "Not compared with an earlier period.", width="stretch")
        query_button(look, overview.overview)


@panel("Over time", TRAFFIC, requests=(), figure=partial(overview.over_time, bin_seconds=DAY))
def chart_panel(look: Look) -> None:
    figure = chosen_figure()

    def counted(rows: Rows, each: Selection, seconds: int) -> pd.DataFrame:
        counts = overview.figure_over_time(rows, each, seconds, figure.name)
        return counts.assign(**{figure.name: counts[figure.name] * figure.times})

    values = timed(look, counted)
    moved.offer(look, values.selection, EXPLAINED.get(figure.name, figure.name))
    timechart(
        look,
        values,
        {figure.name: figure.label},
        height=CHART_HEIGHT,
        unit=values.per_bin(figure.unit or figure.label),
        number=figure.number,
        kept={figure.label: ((), figure.where)},
        sums=not figure.unit,
    )


@panel("Top pages", "gold/pages", requests=VIEWS, figure=pages.pages)
def pages_panel(look: Look) -> None:
    rows = pages.pages(look.rows, look.selection(), limit=LISTED)
    toplist(
        look,
        rows,
        "path",
        "pageviews",
        more={"visitors": "Visitors"},
        counted=pages.COUNTED,
    )


@panel("Top sources", SESSIONS, requests=VIEWS, figure=sources.sources)
def sources_panel(look: Look) -> None:
    rows = sources.sources(look.rows, look.selection(), ["source"], LISTED)
    toplist(
        look,
        rows,
        "source",
        "sessions",
        named=source_name,
        counted=sources.counted(["source"]),
    )


@panel("Top countries", AUDIENCE, requests=PEOPLE, figure=countries.countries)
def countries_panel(look: Look) -> None:
    rows = countries.countries(look.rows, look.selection())
    toplist(
        look,
        rows[rows["visitors"] > 0],
        "country",
        "visitors",
        named=country.name,
        counted=countries.counted("country"),
    )


@panel("Devices", AUDIENCE, requests=PEOPLE, figure=partial(countries.audience, field="device"))
def devices_panel(look: Look) -> None:
    audience(look, "device")


@panel(
    "What moved most",
    AUDIENCE,
    every=SELDOM,
    help="Values that account for the change of the chosen figure, by the tables of full hours; *What moved* has all.",
)
def moved_panel(look: Look) -> None:
    selection, figure = compared.whole_hours(look, look.selection()), chosen_figure()
    period = look.earlier(selection)
    if period is None:
        raise EmptyError("Nothing to compare with. Choose a range that has a period before it.")
    metric = EXPLAINED.get(figure.name, figure.name)
    explained = explain.explain(look.rows, metric, selection, period, quick=True)
    if explained.change and explained.rows.empty:
        raise EmptyError("Tables of full hours have no parts of this change: press What moved above.")
    moved.draw(look, explained, "moved", MOST_MOVED)
