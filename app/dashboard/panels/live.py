"""Live: what is happening now. Times are the wall clock's, so every figure falls when traffic stops."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures import countries, overview
from tidemark.figures.bins import every_bin
from tidemark.figures.query import query
from tidemark.figures.reader import Reader
from tidemark.figures.rows import if_any
from tidemark.figures.selection import Selection
from tidemark.figures.text import duration, shown

from .. import clock, country, data, demo
from ..charts.timechart import Timed, stacked
from ..controls.grid import grid, sheet, texts, time_column
from ..filters import Filters, Span
from ..panel import LIVE, Look, beside, panel, some
from . import job_alerts
from .countries import PEOPLE, draw_map

MINUTES = 5
COUNTRIES = "gold/visitors_by_country"
# Seconds between drawings of the countries: the hour that they are of changes little in less.
COUNTRIES_EVERY = 15.0
REJECTED_SHOWN = 50
LINE_SHOWN = 300


def page(reader: Reader, filters: Filters) -> None:
    demo.intro(reader)
    now_panel(reader, filters)
    beside(reader, filters, windows_panel, map_panel)
    job_alerts.show(reader, filters)
    rejected_panel(reader, filters)


def rate(minutes: pd.DataFrame, now: datetime) -> float:
    """Requests per second of the last full minute; of the current one while it is the first."""
    minute = clock.floor(now, 60)
    requests = dict(zip(minutes["bin"], minutes["requests"], strict=True))
    last = requests.get(pd.Timestamp(minute - timedelta(minutes=1)), 0)
    if last:
        return float(last) / 60
    return float(requests.get(pd.Timestamp(minute), 0)) / max((now - minute).total_seconds(), 1.0)


def since(look: Look, start: datetime, end: datetime) -> Selection:
    """The page's selection of a time that ends with the clock."""
    return look.filters.selection(Span(start, end, overview.MINUTE))


@panel("Right now", "gold/traffic", every=LIVE, requests=())
def now_panel(look: Look) -> None:
    minute = clock.floor(look.now, 60)
    half_hour, end = minute - timedelta(minutes=29), minute + timedelta(minutes=1)
    recent = overview.by_minute(look.rows, since(look, half_hour, end))
    start = minute - timedelta(minutes=MINUTES - 1)
    visitors = overview.visitors(look.rows, since(look, start, end))
    series = every_bin(recent, half_hour, minute, 60, overview.SUMS)
    last = series[series["bin"] >= pd.Timestamp(start)]
    event = data.extent(look.reader, look.filters.site).newest
    behind = None if event is None else max((look.now - event).total_seconds(), 0.0)

    minutes = series.iloc[:-1]
    curves: tuple[tuple[str, str, pd.Series, str], ...] = (
        (
            "Visitors, last 5 minutes",
            f"{visitors:,}",
            minutes["visitors"],
            "Distinct, without bots. ",
        ),
        (
            "Requests per second",
            f"{rate(recent, look.now):,.1f}",
            minutes["requests"] / 60,
            "Over the last full minute. ",
        ),
        ("Pageviews, last 5 minutes", f"{int(last['pageviews'].sum()):,}", minutes["pageviews"], ""),
    )
    cells = st.columns(4)
    for cell, (label, text, curve, help) in zip(cells, curves, strict=False):
        cell.metric(
            label,
            text,
            border=True,
            chart_data=list(curve),
            chart_type="area",
            help=help + _curve(curve),
            height="stretch",
        )
    cells[3].metric(
        "Newest line",
        # The largest unit only: the cell is narrow on a phone.
        "–" if behind is None else f"{' '.join(duration(round(behind)).split()[:2])} ago",
        border=True,
        height="stretch",
        help="Event time of the newest accepted line against the clock.",
    )


def _curve(values: pd.Series) -> str:
    """The help text of a small curve, which has no axes."""
    return f"The curve is the last half hour, by minute: from {values.min():,.3g} to {values.max():,.3g}."


@panel("Visitors by country in the last hour", COUNTRIES, every=COUNTRIES_EVERY, requests=PEOPLE)
def windows_panel(look: Look) -> None:
    span = _last_hour(look, look.window(COUNTRIES))
    selection = look.filters.selection(span)
    counts = countries.visitors(look.rows, selection, span.bin_seconds)
    some(counts, "No visitors in the last hour.", look)
    figure = Timed(span, selection, counts)
    stacked(look, figure, "country", "visitors", named=country.name, height=340, zoom=False)


def _last_hour(look: Look, window: int) -> Span:
    """Whole windows, the last of which is not over."""
    end = clock.floor(look.now, window) + timedelta(seconds=window)
    return Span(end - timedelta(hours=1), end, window)


@panel("Where the last hour's visitors are", COUNTRIES, every=COUNTRIES_EVERY, requests=PEOPLE)
def map_panel(look: Look) -> None:
    selection = look.filters.selection(_last_hour(look, look.window(COUNTRIES)))
    rows = countries.visitors(look.rows, selection)
    rows = rows[rows["visitors"] > 0].sort_values("visitors", ascending=False)
    draw_map(look, rows.rename(columns={"visitors": "value"}), selection, "the last hour's visitors")


@panel(
    "Latest rejected lines",
    "silver/rejected",
    every=LIVE,
    help="Lines that broke a rule. They are kept byte for byte; bytes that are no text show as escapes.",
)
def rejected_panel(look: Look) -> None:
    latest = some(
        if_any(
            look.rows,
            query(
                "silver/rejected",
                REJECTED_COLUMNS,
                look.filters.sites(),
                order_by=["-rejected_at"],
                limit=REJECTED_SHOWN,
            ),
        ),
        "No line was rejected.",
    )
    table, columns = rejected_table(latest, look)
    grid(table, "rejected-latest", columns, rows=6)


REJECTED_COLUMNS = ["rejected_at", "site", "reasons", "nearest_format", "failed_field", "value"]


def rejected_table(rows: pd.DataFrame, look: Look) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Rejected rows as shown: reasons joined, the raw line as text."""
    text = st.column_config.TextColumn
    nearest = [
        "" if format is None else f"{shown(format)}, {shown(field)}"
        for format, field in zip(rows["nearest_format"], rows["failed_field"], strict=True)
    ]
    near = "The format that the line is nearly of, and the field at which it fails."
    return sheet(
        {
            "rejected_at": (look.wall(rows["rejected_at"]), time_column("Rejected", look.filters.zone)),
            "site": ([shown(s) for s in rows["site"]], text("Site", width="small")),
            "reasons": ([", ".join(r) if r is not None else "" for r in rows["reasons"]], text("Reasons")),
            "nearest": (nearest, text("Nearest format, field", help=near)),
            "line": (texts(rows["value"], LINE_SHOWN), text("Line", width="large")),
        }
    )
