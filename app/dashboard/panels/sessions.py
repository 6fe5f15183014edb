"""Sessions that started in the range: how many, how long, from where to where."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from .. import charts, country, data
from ..figures.query import bucket, count, count_true, median, time_bin, total
from ..figures.reader import Reader
from ..filters import Filters
from ..grid import bar_column, count_column, grid, time_column
from ..panel import Look, nothing, panel
from ..text import clipped, duration, number, share, shown

TABLE = "silver/sessions"
BOUNDS = (1, 10, 30, 60, 180, 600, 1800, 3600)
BUCKETS = ("0 s", "1–9 s", "10–29 s", "30–59 s", "1–3 min", "3–10 min", "10–30 min", "30–60 min", "1 h +")
TOP_PAGES = 50
LATEST = 200
PATH_SHOWN = 200


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        time_panel(reader, filters)
    with right:
        duration_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        entry_panel(reader, filters)
    with right:
        exit_panel(reader, filters)
    latest_panel(reader, filters)


@panel("Summary", TABLE)
def summary_panel(look: Look) -> None:
    columns = {
        "sessions": count(),
        "closed": count_true("closed"),
        "bounced": count_true("bounced"),
        "pageviews": total("pageviews"),
        "median": median("duration_seconds"),
    }
    found = data.rows(look.reader, TABLE, columns, look.filters.where("start_time", look.span())).iloc[0]
    sessions = int(found["sessions"])
    pages = f"{found['pageviews'] / sessions:.1f}" if sessions else "–"
    cells = st.columns(6)
    cells[0].metric("Sessions", number(sessions), border=True)
    cells[1].metric(
        "Open now",
        number(sessions - int(found["closed"])),
        border=True,
        help=f"A session closes once its site's newest line is more than {_gap(look)} past its end.",
    )
    cells[2].metric("Median duration", duration(found["median"]), border=True)
    cells[3].metric("Bounce rate", share(found["bounced"], sessions), border=True, help="One pageview only.")
    cells[4].metric("Pages per session", pages, border=True)
    cells[5].metric("Pageviews", number(found["pageviews"]), border=True)


def _gap(look: Look) -> str:
    seconds = data.contract(look.reader, TABLE).number("gap_seconds")
    return "the session gap" if seconds is None else duration(seconds)


@panel("Sessions started", TABLE)
def time_panel(look: Look) -> None:
    span = look.span()
    columns = {
        "bin": time_bin("start_time", span.bin_seconds),
        "sessions": count(),
        "bounced": count_true("bounced"),
    }
    found = data.rows(look.reader, TABLE, columns, look.filters.where("start_time", span), group_by=["bin"])
    if found.empty:
        return nothing()
    found["stayed"] = found["sessions"] - found["bounced"]
    found = charts.filled(
        found, look.start_of(span), look.end_of(span), span.bin_seconds, ["stayed", "bounced"]
    )
    names = {"stayed": "Two pages or more", "bounced": "Bounced"}
    long = charts.longer(found, names)
    long["bin"] = look.wall(long["bin"])
    chart = charts.over_time(
        long,
        zone=look.filters.zone,
        unit="Sessions",
        series=list(names.values()),
        kind="bar",
        bin_seconds=span.bin_seconds,
    )
    charts.draw(chart, look.key)
    return None


@panel("How long they last", TABLE)
def duration_panel(look: Look) -> None:
    columns = {"bucket": bucket("duration_seconds", BOUNDS), "sessions": count()}
    where = look.filters.where("start_time", look.span())
    found = data.rows(look.reader, TABLE, columns, where, group_by=["bucket"])
    if found.empty:
        return nothing()
    counts = found.set_index("bucket")["sessions"].reindex(range(len(BUCKETS)), fill_value=0)
    shown_counts = pd.DataFrame({"duration": BUCKETS, "sessions": counts.to_numpy()})
    charts.draw(charts.columns(shown_counts, "duration", "sessions", "Duration", "Sessions"), look.key)
    return None


def _top_pages(look: Look, column: str, heading: str) -> None:
    columns = {"page": column, "sessions": count(), "bounced": count_true("bounced")}
    found = data.rows(
        look.reader,
        TABLE,
        columns,
        look.filters.where("start_time", look.span()),
        group_by=["page"],
        order_by=["-sessions", "page"],
        limit=TOP_PAGES,
    )
    if found.empty:
        return nothing()
    table = pd.DataFrame(
        {
            "page": [clipped(shown(p), PATH_SHOWN) for p in found["page"]],
            "sessions": found["sessions"],
            "bounce_rate": (found["bounced"] / found["sessions"]).round(3),
        }
    )
    settings = {
        "page": st.column_config.TextColumn(heading, width="medium"),
        "sessions": bar_column("Sessions", table["sessions"].max()),
        "bounce_rate": st.column_config.NumberColumn("Bounced", format="percent"),
    }
    grid(table, f"sessions-{column.replace('_', '-')}s", settings, rows=8)
    return None


@panel("Top entry pages", TABLE)
def entry_panel(look: Look) -> None:
    _top_pages(look, "entry_page", "Entry page")


@panel("Top exit pages", TABLE)
def exit_panel(look: Look) -> None:
    _top_pages(look, "exit_page", "Exit page")


@panel("Latest sessions", TABLE)
def latest_panel(look: Look) -> None:
    columns = [
        "start_time", "site", "country", "duration_seconds", "pageviews", "entry_page", "exit_page", "closed",
        "browser", "os", "device", "channel", "referrer_host",
    ]  # fmt: skip
    found = data.rows(
        look.reader,
        TABLE,
        columns,
        look.filters.where("start_time", look.span()),
        order_by=["-start_time"],
        limit=LATEST,
    )
    if found.empty:
        return nothing()
    found["start_time"] = look.wall(found["start_time"])
    found["country"] = [country.name(c) for c in found["country"]]
    found["closed"] = ["closed" if c else "open" for c in found["closed"]]
    for column in ("site", "entry_page", "exit_page", "browser", "os", "device", "channel", "referrer_host"):
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
        "referrer_host": text("Referrer"),
    }
    grid(found, "sessions-latest", settings)
    return None
