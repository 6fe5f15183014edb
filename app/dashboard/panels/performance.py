"""Performance: how long requests took, over time, by page, and how many were fast enough."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import pandas as pd
import streamlit as st

from tidemark.figures import latency
from tidemark.figures.comparison import Change
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import REQUESTS
from tidemark.figures.text import number
from tidemark.figures.zones import starts, window

from .. import data
from ..charts import chartdata, heat
from ..charts.notemarks import note_marks, note_words
from ..charts.timechart import Kept, timechart, timed
from ..controls import actions, compared
from ..controls.grid import TEXT_WIDTH, Written, count_column, grid_with_actions, sheet, texts
from ..filters import DAY, Filters
from ..panel import Look, meaning, nothing, panel, some
from .errors import path_filter

LATENCY = "gold/latency"
PAGES = "gold/page_latency"
FIVE_MINUTES = 300
THRESHOLDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
THRESHOLD = 0.5
# A page's quantiles say little of fewer requests.
LEAST = 10
LISTED = 300
# An hour is slow if its p95 is at least this multiple of that of the page's other hours.
TIMES = 2.0
SLOW_SHOWN = 50
# A row of the heat map where shorter durations are left out.
GAP = "⋮"
# Tables of the figures of pages: with a filter they are counted from requests.
COUNTED = (PAGES, REQUESTS)
TIMED = (Where("duration_us", "is not null"),)
UNTIMED = "No request in this range has a duration. Log formats with one: docs/formats.md."


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    quantiles_panel(reader, filters)
    slow_panel(reader, filters)
    heat_panel(reader, filters)
    pages_panel(reader, filters)


def took(seconds: float | None) -> str:
    """A latency for people, to three digits."""
    if seconds is None or pd.isna(seconds):
        return "–"
    if seconds < 0.001:
        return f"{seconds * 1_000_000:.0f} µs"
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def score(apdex: float | None) -> str:
    return "–" if apdex is None else f"{apdex:.2f}"


SUMMARY: tuple[compared.Tile, ...] = (
    ("p50", "p50", took, False, meaning("p50")),
    ("p95", "p95", took, False, meaning("p95")),
    ("p99", "p99", took, False, meaning("p99")),
    ("Apdex", "apdex", score, True, meaning("apdex")),
    ("Timed requests", "timed", number, None, meaning("timed")),
)


@panel("Summary", LATENCY, requests=TIMED, figure=latency.counts)
def summary_panel(look: Look) -> None:
    selection = look.selection(FIVE_MINUTES)
    place = st.container()
    threshold = _threshold(look)

    def figures(each: Selection) -> dict[str, float | None]:
        score = latency.apdex(look.rows, each, threshold)
        return asdict(latency.latency(look.rows, each)) | {"apdex": score}

    figures_shown = compared.tiles(look, selection, figures, SUMMARY, place)
    if not figures_shown["timed"]:
        nothing(UNTIMED, look)


def _threshold(look: Look) -> float:
    """The chosen T of the Apdex, in seconds; at first that of the settings."""
    declared = data.contract(look.reader, LATENCY).number("apdex_seconds") or THRESHOLD
    st.session_state.setdefault("apdex", declared)
    chosen: float = st.select_slider(
        "T of the Apdex: requests of at most this long satisfy",
        sorted({*THRESHOLDS, declared}),
        format_func=took,
        key="apdex",
        bind="query-params",
        width=420,
    )
    return chosen


@panel(
    "Latency over time",
    LATENCY,
    help="Within 1% of the exact quantile.",
    requests=TIMED,
    figure=partial(latency.counts, bin_seconds=DAY),
)
def quantiles_panel(look: Look) -> None:
    names = {name: name for name in ("p50", "p95", "p99")}

    def millis(rows: Rows, each: Selection, seconds: int) -> pd.DataFrame:
        times = latency.over_time(rows, each, seconds)
        return times.assign(**{name: times[name] * 1000 for name in names})

    quantiles = timed(look, millis, UNTIMED, finest=FIVE_MINUTES, hours=True)
    kept: dict[str, Kept] = dict.fromkeys(names, ((), TIMED))
    timechart(look, quantiles, names, unit="Milliseconds", number=",.1f", kept=kept, sums=False)


@panel("Requests by time and latency", LATENCY, requests=TIMED)
def heat_panel(look: Look) -> None:
    span, selection = look.span(FIVE_MINUTES), look.selection(FIVE_MINUTES)
    cells = some(latency.heat(look.rows, selection, span.bin_seconds), UNTIMED, look)
    cells["when"] = look.wall(cells["bin"]).dt.strftime("%m-%d %H:%M")
    bounds = latency.rows_of(cells)
    names = {low: f"{took(low)} – {took(high)}" for low, high in bounds}
    cells["took"] = cells["low"].map(names)
    ranges = list(names.values())
    if len(bounds) > 1 and bounds[-1][1] < bounds[-2][0]:
        ranges.insert(-1, GAP)
    times = starts(look.start_of(span), look.end_of(span), span.bin_seconds, look.filters.zone)
    noted = note_marks(
        look, look.filters.zone, times, span.bin_seconds, (look.start_of(span), look.end_of(span))
    )
    noted["x"] = pd.to_datetime(noted["bin"]).dt.strftime("%m-%d %H:%M")
    chart = heat.heat(
        cells,
        "when",
        "took",
        "requests",
        x_title=f"Time ({look.filters.zone})",
        unit="Requests",
        rows=ranges,
        columns=list(look.wall(times).dt.strftime("%m-%d %H:%M")),
        height=max(180, 26 * len(ranges) + 80),
        notes=noted,
    )
    listed = cells.sort_values(["bin", "low"], ascending=False, ignore_index=True)

    def opens(row: int) -> actions.Requests:
        start, low, high = listed["bin"][row], listed["low"][row], listed["high"][row]
        least, most = (round(seconds * 1_000_000) for seconds in (low, high))
        where = (Where("duration_us", ">", least if least else -1), Where("duration_us", "<=", most))
        bin_ = window(start, span.bin_seconds, look.filters.zone)
        return actions.Requests(selection.shifted(*bin_), where)

    columns = {
        "when": st.column_config.TextColumn(f"From ({look.filters.zone})"),
        "took": st.column_config.TextColumn("Took"),
        "requests": count_column("Requests"),
    }
    marks = [{"x": when, "y": took} for when, took in zip(listed["when"], listed["took"], strict=True)]
    most = cells.iloc[int(cells["requests"].argmax())]
    words = f"Requests by time and latency; most at {most['when']} with {most['took']}: {most['requests']:,}."
    words += note_words(noted)
    chartdata.draw(look, chart, words, listed[list(columns)], columns, marks, opens)


def took_column(label: str, help: str | None = None) -> Written:
    """A latency in seconds, as text that says its unit."""
    return Written(st.column_config.NumberColumn(label, width="small", help=help), took)


@panel(
    "What got slower",
    PAGES,
    help=f"Pages with hours in which their p95 was at least {TIMES:g} times that of their other hours (median), most "
    "time lost first. Pages with few requests are compared by up to 24 hours, so that there are at least "
    f"{LEAST} requests, without assets and failures.",
    requests=latency.SERVED,
)
def slow_panel(look: Look) -> None:
    selection = look.selection()
    slow = data.remembered(
        look.reader,
        COUNTED,
        f"slow hours {selection}",
        lambda rows: latency.slow_hours(rows, selection, least=LEAST, times=TIMES),
    )
    slow = some(slow, "No page was slower in one hour than in its others.", look).head(SLOW_SHOWN)
    begun = f"Worst from ({look.filters.zone})"
    times = Written(st.column_config.NumberColumn("Times", width="small"), lambda n: f"{n:.1f} ×")
    table, settings = sheet(
        {
            "page": (texts(slow["path"], LISTED), st.column_config.TextColumn("Path", width=TEXT_WIDTH)),
            "p95": (slow["p95"], took_column("p95 then")),
            "usual": (slow["usual"], took_column("p95 usually", "The median of the page's hours.")),
            "times": (slow["times"], times),
            "bin": (
                look.wall(slow["bin"]),
                st.column_config.DatetimeColumn(begun, format="YYYY-MM-DD HH:mm"),
            ),
            "width": (slow["width"], count_column("For hours")),
            "hours": (slow["hours"], count_column("Slow hours")),
            "timed": (slow["timed"], count_column("Requests then")),
        }
    )
    filters = [(path_filter(p),) for p in slow["path"]]
    grid_with_actions(table, "slower", settings, filters, selection, rows=6, where=latency.SERVED)


@panel(
    "Slowest pages",
    PAGES,
    help=f"Of people's requests without assets and failures, pages with at least {LEAST} of them; within 5%.",
    requests=latency.SERVED,
    figure=latency.page_counts,
)
def pages_panel(look: Look) -> None:
    selection = look.selection()
    whole = compared.whole_hours(look, selection)
    period = look.earlier(whole)

    def counted(rows: Rows) -> tuple[pd.DataFrame, list[Change]]:
        slowest = latency.slowest_pages(rows, selection, least=LEAST, limit=LISTED)
        return slowest, latency.p95_changes(rows, slowest, whole, period)

    key = f"slowest {selection} {whole} {period}"
    listed, changes = data.remembered(look.reader, COUNTED, key, counted)
    some(listed, f"No page has {LEAST} requests with a duration in this range.", look)
    table, settings = sheet(
        {
            "path": (texts(listed["path"], LISTED), st.column_config.TextColumn("Path", width=TEXT_WIDTH)),
            "p95": (listed["p95"], took_column("p95")),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "p50": (listed["p50"], took_column("p50")),
            "p99": (listed["p99"], took_column("p99")),
            "timed": (listed["timed"], count_column("Requests")),
        }
    )
    filters = [(path_filter(p),) for p in listed["path"]]
    grid_with_actions(table, "slowest", settings, filters, selection, rows=10, where=latency.SERVED)
