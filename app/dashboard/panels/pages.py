"""Pages and traffic: load over time, what was read, and who came with what from where."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from .. import charts, data
from ..figures.query import Where, count, time_bin, total
from ..figures.reader import Reader
from ..filters import Filters
from ..grid import bar_column, count_column, grid
from ..panel import Look, nothing, panel
from ..text import clipped, number, share, shown, size
from ..visitors import distinct

TRAFFIC = "gold/traffic"
PAGES = "gold/pages"
SESSIONS = "silver/sessions"
STATUS = {"status_2xx": "2xx", "status_3xx": "3xx", "status_4xx": "4xx", "status_5xx": "5xx"}
SUMS = ("requests", "pageviews", "bot_requests", "bytes", *STATUS)
TOP_PAGES = 100
TOP_GROUPS = 30
PATH_SHOWN = 200


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    traffic_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        status_panel(reader, filters)
    with right:
        bytes_panel(reader, filters)
    pages_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        channel_panel(reader, filters)
    with right:
        referrer_panel(reader, filters)
    for cell, draw in zip(st.columns(3), (browser_panel, os_panel, device_panel), strict=True):
        with cell:
            draw(reader, filters)


def traffic(look: Look) -> pd.DataFrame:
    """Sums per time bin of the range, with empty bins as 0, in wall-clock time."""
    span = look.span()
    columns = {"bin": time_bin("window_start", span.bin_seconds)} | {c: total(c) for c in SUMS}
    found = data.rows(
        look.reader, TRAFFIC, columns, look.filters.where("window_start", span), group_by=["bin"]
    )
    if found.empty:
        return found
    visitors = distinct(
        look.reader, TRAFFIC, look.filters.where("window_start", span), bin_seconds=span.bin_seconds
    )
    found = found.merge(visitors, on="bin", how="left").fillna({"visitors": 0})
    values = [*SUMS, "visitors"]
    return charts.filled(found, look.start_of(span), look.end_of(span), span.bin_seconds, values)


@panel("Summary", TRAFFIC)
def summary_panel(look: Look) -> None:
    where = look.filters.where("window_start", look.span())
    sums = data.rows(look.reader, TRAFFIC, {c: total(c) for c in SUMS}, where).iloc[0]
    visitors = int(distinct(look.reader, TRAFFIC, where)["visitors"].iloc[0])
    cells = st.columns(6)
    cells[0].metric("Visitors", number(visitors), border=True, help="Distinct over the whole range.")
    cells[1].metric("Pageviews", number(sums["pageviews"]), border=True)
    cells[2].metric("Requests", number(sums["requests"]), border=True)
    cells[3].metric("By bots", share(sums["bot_requests"], sums["requests"]), border=True)
    errors = sums["status_4xx"] + sums["status_5xx"]
    cells[4].metric("4xx and 5xx", share(errors, sums["requests"]), border=True)
    cells[5].metric("Sent", size(sums["bytes"]), border=True)


def bin_words(seconds: int) -> str:
    for name, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return f"per {name}" if seconds == length else f"per {seconds // length} {name}s"
    return f"per {seconds} seconds"


@panel("Requests, pageviews and visitors", TRAFFIC)
def traffic_panel(look: Look) -> None:
    found = traffic(look)
    if found.empty:
        return nothing()
    span = look.span()
    names = {"requests": "Requests", "pageviews": "Pageviews", "visitors": "Visitors"}
    long = charts.longer(found, names)
    long["bin"] = look.wall(long["bin"])
    unit = f"Count {bin_words(span.bin_seconds)}"
    chart = charts.over_time(
        long, zone=look.filters.zone, unit=unit, series=list(names.values()), bin_seconds=span.bin_seconds
    )
    charts.draw(chart, look.key)
    table = found[["bin", *SUMS, "visitors"]].assign(bin=look.wall(found["bin"]))
    with st.expander("As a table"):
        labels = {c: count_column(c.replace("_", " ").capitalize()) for c in (*SUMS, "visitors")}
        start = st.column_config.DatetimeColumn(f"From ({look.filters.zone})", format="YYYY-MM-DD HH:mm")
        grid(table.iloc[::-1], "traffic", {"bin": start} | labels)
    return None


@panel("Status classes", TRAFFIC)
def status_panel(look: Look) -> None:
    found = traffic(look)
    if found.empty:
        return nothing()
    span = look.span()
    long = charts.longer(found, STATUS)
    long["bin"] = look.wall(long["bin"])
    tone = charts.themed()
    chart = charts.over_time(
        long,
        zone=look.filters.zone,
        unit=f"Requests {bin_words(span.bin_seconds)}",
        kind="bar",
        series=list(STATUS.values()),
        colors=[tone["good"], tone["info"], tone["warn"], tone["bad"]],
        bin_seconds=span.bin_seconds,
    )
    charts.draw(chart, look.key)
    return None


@panel("Bytes sent", TRAFFIC)
def bytes_panel(look: Look) -> None:
    found = traffic(look)
    if found.empty:
        return nothing()
    span = look.span()
    long = charts.longer(found, {"bytes": "Bytes"})
    long["bin"] = look.wall(long["bin"])
    chart = charts.over_time(
        long,
        zone=look.filters.zone,
        unit=f"Bytes {bin_words(span.bin_seconds)}",
        kind="area",
        series=["Bytes"],
        number=".3s",
        bin_seconds=span.bin_seconds,
        height=charts.HEIGHT + charts.LEGEND,
    )
    charts.draw(chart, look.key)
    return None


def top_pages(look: Look) -> pd.DataFrame:
    """The paths with the most pageviews, with their distinct visitors over the range."""
    where = look.filters.where("window_start", look.span(look.window(PAGES)))
    found = data.rows(
        look.reader,
        PAGES,
        {"path": "path", "pageviews": total("pageviews")},
        where,
        group_by=["path"],
        order_by=["-pageviews", "path"],
        limit=TOP_PAGES,
    )
    if found.empty:
        return found
    paths = Where("path", "in", tuple(found["path"]))
    visitors = distinct(look.reader, PAGES, (*where, paths), by=["path"])
    return found.merge(visitors, on="path", how="left").fillna({"visitors": 0}).astype({"visitors": int})


@panel("Top pages", PAGES, help="Pages are kept by the hour; the range is widened to whole hours.")
def pages_panel(look: Look) -> None:
    found = top_pages(look)
    if found.empty:
        return nothing()
    found["path"] = [clipped(shown(p), PATH_SHOWN) for p in found["path"]]
    settings = {
        "path": st.column_config.TextColumn("Path", width="medium"),
        "pageviews": bar_column("Pageviews", found["pageviews"].max()),
        "visitors": count_column("Visitors"),
    }
    grid(found, "pages", settings, rows=12)
    return None


def _sessions_by(look: Look, column: str, heading: str, none: str, *, narrow: bool = False) -> None:
    columns = {"group": column, "sessions": count(), "pageviews": total("pageviews")}
    found = data.rows(
        look.reader,
        SESSIONS,
        columns,
        look.filters.where("start_time", look.span()),
        group_by=["group"],
        order_by=["-sessions", "group"],
        limit=TOP_GROUPS,
    )
    if found.empty:
        return nothing()
    found["group"] = [clipped(shown(g), PATH_SHOWN) if g else none for g in found["group"]]
    settings = {
        "group": st.column_config.TextColumn(heading, width="medium"),
        "sessions": bar_column("Sessions", found["sessions"].max()),
        "pageviews": None if narrow else count_column("Pageviews"),
    }
    grid(found, f"sessions-by-{column.replace('_', '-')}", settings, rows=7)
    return None


@panel("Channels", SESSIONS, help="Of sessions that started in the range.")
def channel_panel(look: Look) -> None:
    _sessions_by(look, "channel", "Channel", "(none)")


@panel("Referrers", SESSIONS)
def referrer_panel(look: Look) -> None:
    _sessions_by(look, "referrer_host", "Referrer", "(none)")


@panel("Browsers", SESSIONS)
def browser_panel(look: Look) -> None:
    _sessions_by(look, "browser", "Browser", "(unknown)", narrow=True)


@panel("Operating systems", SESSIONS)
def os_panel(look: Look) -> None:
    _sessions_by(look, "os", "System", "(unknown)", narrow=True)


@panel("Devices", SESSIONS)
def device_panel(look: Look) -> None:
    _sessions_by(look, "device", "Device", "(unknown)", narrow=True)
