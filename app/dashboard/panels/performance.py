"""Performance: how long requests took, over time, by page, and how many were fast enough."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pandas as pd
import streamlit as st

from .. import actions, charts, data, heat
from ..figures import latency
from ..figures.query import Where
from ..figures.reader import Reader
from ..filters import Filters
from ..grid import bar_column, count_column, grid_with_actions
from ..panel import Look, meaning, nothing, panel
from ..text import clipped, number, shown
from ..timechart import note_marks, note_words, timechart
from .errors import path_filter

LATENCY = "gold/latency"
PAGES = "gold/page_latency"
FIVE_MINUTES = 300
THRESHOLDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
THRESHOLD = 0.5
# A page's quantiles say little of fewer requests.
LEAST = 10
LISTED = 300
TIMED = (Where("duration_us", "is not null"),)
UNTIMED = "No request in this range has a duration. Log formats with one: docs/formats.md."


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    quantiles_panel(reader, filters)
    heat_panel(reader, filters)
    pages_panel(reader, filters)


def took(seconds: float | None) -> str:
    """A latency for people, to three digits."""
    if seconds is None or pd.isna(seconds):
        return "–"
    if seconds < 0.001:
        return f"{seconds * 1_000_000:.0f} µs"
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


@panel("Summary", LATENCY, requests=TIMED, figure="latency")
def summary_panel(look: Look) -> None:
    selection = look.selection(FIVE_MINUTES)
    found = latency.latency(look.rows, selection)
    figures = st.container()
    score = latency.apdex(look.rows, selection, _threshold(look))
    cells = figures.columns(5)
    cells[0].metric("p50", took(found.p50), border=True, help=meaning("p50"))
    cells[1].metric("p95", took(found.p95), border=True, help=meaning("p95"))
    cells[2].metric("p99", took(found.p99), border=True, help=meaning("p99"))
    cells[3].metric(
        "Apdex", "–" if score is None else f"{score:.2f}", border=True,
        help=meaning("apdex"),
    )  # fmt: skip
    cells[4].metric("Timed requests", number(found.timed), border=True, help=meaning("timed"))
    if not found.timed:
        nothing(UNTIMED)


def _threshold(look: Look) -> float:
    """The chosen T of the Apdex, in seconds; at first that of the settings."""
    declared = data.contract(look.reader, LATENCY).number("apdex_seconds") or THRESHOLD
    st.session_state.setdefault("apdex", declared)
    chosen: float = st.select_slider(
        "T of the Apdex: requests of at most this long satisfy",
        sorted({*THRESHOLDS, declared}), format_func=took, key="apdex", bind="query-params", width=420,
    )  # fmt: skip
    return chosen


@panel(
    "Latency over time",
    LATENCY,
    help="Within 1% of the exact quantile.",
    requests=TIMED,
    figure="latency over time",
)
def quantiles_panel(look: Look) -> None:
    span, selection = look.span(FIVE_MINUTES), look.selection(FIVE_MINUTES)
    found = latency.over_time(look.rows, selection, span.bin_seconds)
    if found.empty:
        return nothing(UNTIMED)
    for name in ("p50", "p95", "p99"):
        found[name] *= 1000
    timechart(
        look, found, {"p50": "p50", "p95": "p95", "p99": "p99"}, span=span, unit="Milliseconds", number=",.1f",
        selection=selection, kept=dict.fromkeys(("p50", "p95", "p99"), ((), TIMED)), sums=False, table=True,
    )  # fmt: skip
    return None


@panel("Requests by time and latency", LATENCY, requests=TIMED)
def heat_panel(look: Look) -> None:
    span, selection = look.span(FIVE_MINUTES), look.selection(FIVE_MINUTES)
    found = latency.heat(look.rows, selection, span.bin_seconds)
    if found.empty:
        return nothing(UNTIMED)
    found["when"] = look.wall(found["bin"]).dt.strftime("%m-%d %H:%M")
    ranges = found[["low", "high"]].drop_duplicates().sort_values("low", ascending=False)
    names = {low: f"{took(low)} – {took(high)}" for low, high in ranges.itertuples(index=False)}
    found["took"] = found["low"].map(names)
    times = charts.filled(
        found, look.start_of(span), look.end_of(span), span.bin_seconds, ["requests"]
    )["bin"]  # fmt: skip
    marks = note_marks(
        look, look.filters.zone, times, span.bin_seconds, (look.start_of(span), look.end_of(span))
    )
    marks["x"] = pd.to_datetime(marks["bin"]).dt.strftime("%m-%d %H:%M")
    chart = heat.heat(
        found, "when", "took", "requests", x_title=f"Time ({look.filters.zone})", y_title="", unit="Requests",
        rows=list(names.values()), columns=list(look.wall(times).dt.strftime("%m-%d %H:%M")),
        height=max(180, 26 * len(names) + 80), notes=marks, pick=True,
    )  # fmt: skip
    bins = dict(zip(found["when"], found["bin"], strict=True))
    bounds = {
        name: (low, high)
        for (low, high), name in zip(ranges.itertuples(index=False, name=None), names.values(), strict=True)
    }

    def picked(marks: list[dict[str, Any]]) -> None:
        start, between = bins.get(marks[0].get("x")), bounds.get(str(marks[0].get("y")))
        if start is None or between is None:
            return
        low, high = (round(seconds * 1_000_000) for seconds in between)
        where = (Where("duration_us", ">", low if low else -1), Where("duration_us", "<=", high))
        end = start + timedelta(seconds=span.bin_seconds)
        chosen = selection.shifted(start.to_pydatetime(), end.to_pydatetime())
        actions.open_view(actions.Requests(chosen, where))

    most = found.loc[found["requests"].idxmax()]
    words = f"Requests by time and latency; most at {most['when']} with {most['took']}: {most['requests']:,}."
    charts.draw(chart, look.key, words + note_words(marks), picked)
    return None


@panel(
    "Slowest pages",
    PAGES,
    help=f"Of people's requests without assets and failures, pages with at least {LEAST} of them; within 5%.",
    requests=latency.SERVED,
    figure="slowest pages",
)
def pages_panel(look: Look) -> None:
    selection = look.selection()
    found = latency.slowest_pages(look.rows, selection, least=LEAST, limit=LISTED)
    if found.empty:
        return nothing(f"No page has {LEAST} requests with a duration in this range.")
    table = pd.DataFrame(
        {
            "path": [clipped(shown(p), LISTED) for p in found["path"]],
            "p50": found["p50"] * 1000,
            "p95": found["p95"] * 1000,
            "p99": found["p99"] * 1000,
            "timed": found["timed"],
        }
    ).round(1)
    settings = {
        "path": st.column_config.TextColumn("Path", width="medium"),
        "p95": bar_column("p95 (ms)", table["p95"].max()),
        "p50": count_column("p50 (ms)"),
        "p99": count_column("p99 (ms)"),
        "timed": count_column("Requests"),
    }
    filters = [(path_filter(p),) for p in found["path"]]
    grid_with_actions(table, "slowest", settings, filters, selection, rows=10, where=latency.SERVED)
    return None
