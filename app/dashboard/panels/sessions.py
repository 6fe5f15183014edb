"""Sessions that started in the range: how many, how long, and the latest of them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from .. import charts, country, data
from ..figures import sessions
from ..figures.query import Where
from ..figures.reader import Reader
from ..filters import Filters
from ..grid import count_column, grid, time_column
from ..panel import Look, meaning, nothing, panel
from ..text import clipped, duration, number, shown
from ..timechart import timechart

TABLE = "silver/sessions"
VIEWS = (Where("pageview", "=", True),)
BOUNDS = (1, 10, 30, 60, 180, 600, 1800, 3600)
BUCKETS = ("0 s", "1–9 s", "10–29 s", "30–59 s", "1–3 min", "3–10 min", "10–30 min", "30–60 min", "1 h +")
LATEST = 200
PATH_SHOWN = 200


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        time_panel(reader, filters)
    with right:
        duration_panel(reader, filters)
    latest_panel(reader, filters)


@panel("Summary", TABLE, requests=VIEWS, figure="sessions")
def summary_panel(look: Look) -> None:
    found = sessions.summary(look.rows, look.selection())
    pages = "–" if found.pages_per_session is None else f"{found.pages_per_session:.1f}"
    bounced = "–" if found.bounce_rate is None else f"{found.bounce_rate:.1%}"
    cells = st.columns(6)
    cells[0].metric("Sessions", number(found.sessions), border=True, help=meaning("sessions"))
    cells[1].metric(
        "Open now",
        number(found.sessions - found.closed),
        border=True,
        help=f"A session closes once its site's newest line is more than {_gap(look)} past its end.",
    )
    cells[2].metric("Median duration", duration(found.duration), border=True, help=meaning("duration"))
    cells[3].metric("Bounce rate", bounced, border=True, help=meaning("bounce_rate"))
    cells[4].metric("Pages per session", pages, border=True)
    cells[5].metric("Pageviews", number(found.pageviews), border=True, help=meaning("pageviews"))


def _gap(look: Look) -> str:
    seconds = data.contract(look.reader, TABLE).number("gap_seconds")
    return "the session gap" if seconds is None else duration(seconds)


@panel("Sessions started", TABLE, requests=VIEWS, figure="sessions over time")
def time_panel(look: Look) -> None:
    span, selection = look.span(), look.selection()
    found = sessions.over_time(look.rows, selection, span.bin_seconds)
    if found.empty:
        return nothing()
    found["stayed"] = found["sessions"] - found["bounces"]
    names = {"stayed": "Two pages or more", "bounces": "Bounced"}
    timechart(
        look, found, names, span=span, unit="Sessions", kind="bar", selection=selection,
        kept=dict.fromkeys(names.values(), ((), VIEWS)), table=True,
    )  # fmt: skip
    return None


@panel("How long they last", TABLE)
def duration_panel(look: Look) -> None:
    found = sessions.durations(look.rows, look.selection(), BOUNDS)
    if found.empty:
        return nothing()
    counts = found.set_index("bucket")["sessions"].reindex(range(len(BUCKETS)), fill_value=0)
    table = pd.DataFrame({"duration": BUCKETS, "sessions": counts.to_numpy()})
    words = "Sessions by duration: " + ", ".join(f"{d} {n:,}" for d, n in table.itertuples(index=False)) + "."
    charts.draw(charts.columns(table, "duration", "sessions", "Duration", "Sessions"), look.key, words)
    return None


@panel("Latest sessions", TABLE, requests=VIEWS)
def latest_panel(look: Look) -> None:
    found = sessions.latest(look.rows, look.selection(), LATEST)
    if found.empty:
        return nothing()
    found["start_time"] = look.wall(found["start_time"])
    found["country"] = [country.name(c) for c in found["country"]]
    found["closed"] = ["closed" if c else "open" for c in found["closed"]]
    for column in (
        "site",
        "entry_page",
        "exit_page",
        "browser",
        "os",
        "device",
        "channel",
        "source",
        "referrer_host",
    ):
        found[column] = [clipped(shown(v), PATH_SHOWN) for v in found[column]]
    text = st.column_config.TextColumn
    settings = {
        "start_time": time_column("Start", look.filters.zone),
        "site": text("Site", width="small"),
        "country": text("Country"),
        "duration_seconds": count_column("Seconds"),
        "pageviews": count_column("Pages"),
        "entry_page": text("Entry page", width="medium"),
        "exit_page": text("Exit page", width="medium"),
        "closed": text("State", width="small"),
        "browser": text("Browser"),
        "os": text("OS"),
        "device": text("Device"),
        "channel": text("Channel"),
        "source": text("Source"),
        "referrer_host": text("Referrer"),
    }
    grid(found, "sessions-latest", settings)
    return None
