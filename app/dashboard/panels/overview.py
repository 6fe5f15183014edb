"""Overview: how much, compared with the time before, and what changed most."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import streamlit as st

from .. import clock, country, demo
from ..actions import Whole, is_filter
from ..figures import countries, overview, pages, sources
from ..figures.comparison import Change
from ..figures.query import Where
from ..figures.reader import Reader
from ..figures.selection import Selection
from ..filters import HOUR, Filters, Span
from ..grid import bar_column, count_column, grid_with_actions
from ..panel import Look, meaning, nothing, panel
from ..text import clipped, duration, number, shown
from ..timechart import bin_words, timechart
from ..toplist import toplist

TRAFFIC = "gold/traffic"
SESSIONS = "silver/sessions"
AUDIENCE = "gold/audience"
LISTED = 1000
PATH_SHOWN = 200
PEOPLE = (Where("bot", "=", False),)
VIEWS = (Where("pageview", "=", True),)


def page(reader: Reader, filters: Filters) -> None:
    demo.intro(reader)
    summary_panel(reader, filters)
    traffic_panel(reader, filters)
    for draw_both in ((pages_panel, sources_panel), (countries_panel, devices_panel)):
        for cell, draw in zip(st.columns(2), draw_both, strict=True):
            with cell:
                draw(reader, filters)
    moved_panel(reader, filters)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


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
            metric(label, changes[name], text(changes[name].now), better, meaning(name))
    said = compared(look, selection)
    if said:
        st.caption(said)


def metric(label: str, change: Change, value: str, better: bool | None, help: str | None = None) -> None:
    """A figure with its change: an arrow, "new", or nothing."""
    text = str(change)
    color = "off" if better is None or change.is_new else "normal" if better else "inverse"
    flat = change.ratio is not None and abs(change.ratio) < 0.0005
    st.metric(
        label, value, None if not text or flat else text, delta_color=color,
        delta_arrow="off" if change.is_new else "auto", border=True, help=help,
    )  # fmt: skip


def compared(look: Look, selection: Selection) -> str:
    """The period compared with, in words; why there is none if one was asked for."""
    if not selection.comparison:
        return ""
    period = look.earlier(selection)
    if period is None or period.start is None or period.end is None:
        return "No comparison: the earlier period begins before the first line." if selection.start else ""
    zone = look.filters.zone
    return f"Compared with {clock.stamp(period.start, zone)} to {clock.stamp(period.end, zone)} ({zone})."


@panel("Visitors and pageviews", TRAFFIC, requests=(), figure="overview over time")
def traffic_panel(look: Look) -> None:
    span = look.span()
    selection = look.selection()
    found = overview.over_time(look.rows, selection, span.bin_seconds)
    if found.empty:
        return nothing()
    timechart(
        look, found, {"pageviews": "Pageviews", "visitors": "Visitors"}, span=span,
        unit=f"Count {bin_words(span.bin_seconds)}", before=_before(look, selection, span),
        selection=selection, kept={"Pageviews": ((), VIEWS), "Visitors": ((), PEOPLE)}, table=True, height=300,
    )  # fmt: skip
    return None


def _before(look: Look, selection: Selection, span: Span) -> pd.DataFrame | None:
    """The compared period's counts, moved to the range's times: by whole bins, so that bins lie on bins."""
    period = look.earlier(selection)
    if period is None or period.start is None or period.end is None or selection.start is None:
        return None
    back = -(-(selection.start - period.start) // timedelta(seconds=span.bin_seconds)) * span.bin_seconds
    moved = timedelta(seconds=back)
    end = selection.end or look.end_of(span)
    found = overview.over_time(
        look.rows, period.shifted(selection.start - moved, end - moved), span.bin_seconds
    )
    return found.assign(bin=found["bin"] + moved)


@panel("Top pages", "gold/pages", requests=VIEWS, figure="pages")
def pages_panel(look: Look) -> None:
    found = pages.pages(look.rows, look.selection(), limit=LISTED)
    toplist(look, found, "path", "pageviews", heading="Pageviews", whole=Whole("Pages", all_pages))


def all_pages(look: Look) -> None:
    selection = look.selection()
    found = pages.pages(look.rows, selection, limit=LISTED)
    table = found.assign(path=[clipped(shown(p), PATH_SHOWN) for p in found["path"]])
    columns = {
        "path": st.column_config.TextColumn("Path", width="large"),
        "pageviews": bar_column("Pageviews", found["pageviews"].max()),
        "visitors": count_column("Visitors"),
    }
    filters = [(is_filter("path", p),) for p in found["path"]]
    grid_with_actions(table, "all-pages", columns, filters, selection, rows=14, where=VIEWS)


@panel("Top sources", SESSIONS, requests=VIEWS, figure="sources")
def sources_panel(look: Look) -> None:
    found = sources.sources(look.rows, look.selection(), ["source"], LISTED)
    toplist(look, found, "source", "sessions", heading="Sessions", named=lambda s: s or "Direct / none")


@panel("Top countries", AUDIENCE, requests=PEOPLE, figure="countries")
def countries_panel(look: Look) -> None:
    found = countries.countries(look.rows, look.selection())
    toplist(look, found[found["visitors"] > 0], "country", "visitors", heading="Visitors", named=country.name)


@panel("Devices", AUDIENCE, requests=PEOPLE, figure="devices")
def devices_panel(look: Look) -> None:
    found = countries.audience(look.rows, look.selection(), "device")
    toplist(look, found[found["visitors"] > 0], "device", "visitors", heading="Visitors", named=device_name)


def device_name(value: str) -> str:
    return value.capitalize() or "Unknown"


MOVED = {"page": "path", "country": "country", "device": "device", "source": "source"}


@panel(
    "What moved most",
    AUDIENCE,
    help="Pages, countries, devices and sources whose counts differ most from the earlier period; of full hours only.",
)
def moved_panel(look: Look) -> None:
    selection = whole_hours(look, look.selection())
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
            "change": [str(change) for change in changes],
            "difference": [
                f"{now - before:+,}" for now, before in zip(found["now"], found["before"], strict=True)
            ],
            "before": found["before"],
            "now": found["now"],
            "measure": found["measure"],
        }
    )
    text = st.column_config.TextColumn
    columns = {
        "what": text("What", width="small"),
        "value": text("Value", width="medium"),
        "change": text("Change", width="small"),
        "difference": text("Difference", width="small"),
        "before": count_column("Before"),
        "now": count_column("Now"),
        "measure": text("Counted", width="small"),
    }
    filters = [(is_filter(MOVED[what], v),) for what, v in zip(found["what"], found["value"], strict=True)]
    grid_with_actions(table, "moved", columns, filters, selection)
    return None


def _named(what: str, value: str) -> str:
    named = {"country": country.name, "device": device_name, "source": lambda s: s or "Direct / none"}
    return clipped(shown(named.get(what, str)(value)), PATH_SHOWN)


def whole_hours(look: Look, selection: Selection) -> Selection:
    """The selection until the last full hour, if it reaches now, so that tables by the hour answer."""
    if selection.start is None or selection.end is not None or not selection.aligned(HOUR):
        return selection
    end = clock.floor(min(look.extent.newest or look.now, look.now), HOUR)
    return selection.shifted(selection.start, end) if end > selection.start else selection
