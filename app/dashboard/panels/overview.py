"""Overview: how much, compared with the time before, and what changed most."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from tidemark.figures import countries, overview, pages, silver, sources
from tidemark.figures.comparison import Change
from tidemark.figures.reader import Reader
from tidemark.figures.silver import SESSIONS, VIEW
from tidemark.figures.text import clipped, duration, number, percent, shown

from .. import country, demo
from ..charts.timechart import bin_words, timechart
from ..controls import compared
from ..controls.actions import Whole, is_filter
from ..controls.grid import bar_column, change_column, count_column, difference_column, grid_with_actions
from ..controls.toplist import toplist
from ..filters import Filters
from ..panel import Look, meaning, nothing, panel

TRAFFIC = "gold/traffic"
AUDIENCE = "gold/audience"
LISTED = 1000
PATH_SHOWN = 200
PEOPLE = (silver.PEOPLE,)
VIEWS = (VIEW,)


def page(reader: Reader, filters: Filters) -> None:
    demo.intro(reader)
    summary_panel(reader, filters)
    traffic_panel(reader, filters)
    for draw_both in ((pages_panel, sources_panel), (countries_panel, devices_panel)):
        for cell, draw in zip(st.columns(2), draw_both, strict=True):
            with cell:
                draw(reader, filters)
    moved_panel(reader, filters)


# A heading, the figure, its text, and whether more is better (None: neither).
FIGURES = (
    ("Visitors", "visitors", number, True),
    ("Sessions", "sessions", number, True),
    ("Pageviews", "pageviews", number, True),
    ("Bounce rate", "bounce_rate", percent, False),
    ("Session duration", "duration", duration, True),
    ("Requests", "requests", number, None),
)


@panel("Summary", TRAFFIC, SESSIONS, requests=(), figure="overview")
def summary_panel(look: Look) -> None:
    selection = look.selection()
    changes = overview.changes(look.rows, selection, look.extent, look.now)
    for cell, (label, name, text, better) in zip(st.columns(6), FIGURES, strict=True):
        with cell:
            compared.metric(label, changes[name], text(changes[name].now), better, meaning(name))
    if said := compared.said_of(look, selection):
        st.caption(said)


@panel("Visitors and pageviews", TRAFFIC, requests=(), figure="overview over time")
def traffic_panel(look: Look) -> None:
    span = look.span()
    selection = look.selection()
    found = overview.over_time(look.rows, selection, span.bin_seconds)
    if found.empty:
        return nothing()
    before = compared.over_time(
        look, selection, span, lambda each: overview.over_time(look.rows, each, span.bin_seconds)
    )
    timechart(
        look, found, {"pageviews": "Pageviews", "visitors": "Visitors"}, span=span,
        unit=f"Count {bin_words(span.bin_seconds)}", before=before,
        selection=selection, kept={"Pageviews": ((), VIEWS), "Visitors": ((), PEOPLE)}, height=300,
    )  # fmt: skip
    return None


@panel("Top pages", "gold/pages", requests=VIEWS, figure="pages")
def pages_panel(look: Look) -> None:
    found = pages.pages(look.rows, look.selection(), limit=LISTED)
    toplist(
        look, found, "path", "pageviews", heading="Pageviews", whole=Whole("Pages", all_pages),
        counted=pages.COUNTED,
    )  # fmt: skip


def all_pages(look: Look) -> None:
    selection = look.selection()
    found = pages.pages(look.rows, selection, limit=LISTED)
    table = found.assign(path=[clipped(shown(p), PATH_SHOWN) for p in found["path"]])
    table.insert(2, "change", compared.ratios(compared.of_rows(look, found, selection, pages.COUNTED)))
    columns = {
        "path": st.column_config.TextColumn("Path", width="large"),
        "pageviews": bar_column("Pageviews", found["pageviews"].max()),
        "change": compared.column(look, selection),
        "visitors": count_column("Visitors"),
    }
    filters = [(is_filter("path", p),) for p in found["path"]]
    grid_with_actions(table, "all-pages", columns, filters, selection, rows=14, where=VIEWS)


@panel("Top sources", SESSIONS, requests=VIEWS, figure="sources")
def sources_panel(look: Look) -> None:
    found = sources.sources(look.rows, look.selection(), ["source"], LISTED)
    toplist(
        look, found, "source", "sessions", heading="Sessions", named=lambda s: s or "Direct / none",
        counted=sources.counted(["source"]),
    )  # fmt: skip


@panel("Top countries", AUDIENCE, requests=PEOPLE, figure="countries")
def countries_panel(look: Look) -> None:
    found = countries.countries(look.rows, look.selection())
    toplist(
        look, found[found["visitors"] > 0], "country", "visitors", heading="Visitors", named=country.name,
        counted=countries.counted("country"),
    )  # fmt: skip


@panel("Devices", AUDIENCE, requests=PEOPLE, figure="devices")
def devices_panel(look: Look) -> None:
    found = countries.audience(look.rows, look.selection(), "device")
    toplist(
        look, found[found["visitors"] > 0], "device", "visitors", heading="Visitors", named=device_name,
        counted=countries.counted("device"),
    )  # fmt: skip


def device_name(value: str) -> str:
    return value.capitalize() or "Unknown"


MOVED = {"page": "path", "country": "country", "device": "device", "source": "source"}


@panel(
    "What moved most",
    AUDIENCE,
    help="Pages, countries, devices and sources whose counts differ most from the earlier period; of full hours only.",
)
def moved_panel(look: Look) -> None:
    selection = compared.whole_hours(look, look.selection())
    period = look.earlier(selection)
    if period is None:
        return nothing("Nothing to compare with.")
    found = overview.moved(look.rows, selection, period)
    if found.empty:
        return nothing("Nothing moved.")
    changes = [Change(now, before) for now, before in zip(found["now"], found["before"], strict=True)]
    table = pd.DataFrame(
        {
            "what": found["what"].str.capitalize(),
            "value": [_named(what, v) for what, v in zip(found["what"], found["value"], strict=True)],
            "change": compared.ratios(changes),
            "difference": found["now"] - found["before"],
            "before": found["before"],
            "now": found["now"],
            "measure": found["measure"],
        }
    )
    text = st.column_config.TextColumn
    columns = {
        "what": text("What", width="small"),
        "value": text("Value", width="medium"),
        "change": change_column(),
        "difference": difference_column("Difference"),
        "before": count_column("Before"),
        "now": count_column("Now"),
        "measure": text("Counted", width="small"),
    }
    filters = [(is_filter(MOVED[what], v),) for what, v in zip(found["what"], found["value"], strict=True)]
    grid_with_actions(table, "moved", columns, filters, selection)
    return None


def _named(what: str, value: str) -> str:
    named: dict[str, Callable[[str], str]] = {
        "country": country.name,
        "device": device_name,
        "source": lambda s: s or "Direct / none",
    }
    return clipped(shown(named.get(what, str)(value)), PATH_SHOWN)
