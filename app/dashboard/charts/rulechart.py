"""The figure that an alert rule watches, over time, with its bound and the times in which it fired."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures.alert_rules import Rule
from tidemark.figures.declared import GOAL
from tidemark.figures.rules import of_lines, requests_of, watched
from tidemark.figures.selection import Selection
from tidemark.figures.text import duration, number, shown
from tidemark.figures.timespec import UTC_SCALE, Layer, millis

from .. import clock, colors, data
from ..controls import actions
from ..panel import Look, nothing
from .timechart import bin_words, over_time

# A chart has at most this many windows, and as much time of a figure that is counted from single requests.
MOST_WINDOWS = 2016
MOST_OF_LINES = timedelta(days=7)
# What a metric is called, what its values are multiplied by in a chart, and their format there.
METRICS = {
    "requests": ("Requests", 1, ",.0f"),
    "visitors": ("Visitors", 1, ",.0f"),
    "share_5xx": ("5xx, % of requests", 100, ",.1f"),
    "not_found": ("404s", 1, ",.0f"),
    "p95": ("p95, milliseconds", 1000, ",.1f"),
    "share_bots": ("Bots, % of requests", 100, ",.1f"),
}


def metric_of(metric: str) -> tuple[str, int, str]:
    return METRICS.get(metric) or (f"Requests of goal {shown(metric.removeprefix(GOAL))}", 1, ",.0f")


def value_text(metric: str, value: float | None) -> str:
    """A value of a metric for people."""
    if value is None or pd.isna(value):
        return "–"
    if metric.startswith("share_"):
        return f"{value:.1%}"
    if metric == "p95":
        return f"{value * 1000:,.0f} ms" if value < 1 else f"{value:,.2f} s"
    return number(value) if float(value).is_integer() else f"{value:,.1f}"


def rulechart(
    look: Look, rule: Rule, site: str, start: datetime, end: datetime, fired: pd.DataFrame, part: str = ""
) -> None:
    """Draws the windows of a site from `start` until before `end`, the newest if they are too many. `fired` are the
    rule's alerts on the site."""
    first = data.extent(look.reader, site).first
    # Windows that are over.
    end = clock.floor(end, rule.seconds)
    most = timedelta(seconds=rule.seconds * MOST_WINDOWS)
    earliest = end - (min(most, MOST_OF_LINES) if of_lines(rule) else most)
    shortened, start = start < earliest, max(start, earliest)
    values = watched(look.rows, rule, site, first, start, end)
    if not values["value"].notna().any():
        return nothing("The figure has no value at this time.")
    unit, times, form = metric_of(rule.metric)
    starts = dict(zip(millis(look.wall(values["bin"])), values["bin"], strict=True))
    values = values.assign(bin=look.wall(values["bin"]))
    for name in ("value", "lower", "upper"):
        values[name] *= times
    name = unit.partition(",")[0]
    spans = _spans(look, fired[(fired["state"] != "withdrawn")], start, end)

    def requests(begin: pd.Timestamp) -> actions.Requests:
        until = begin + timedelta(seconds=rule.seconds)
        return requests_view(look, rule, site, begin.to_pydatetime(), until.to_pydatetime())

    def picked(marks: list[dict[str, Any]]) -> None:
        begin = starts.get(int(marks[0].get("at", -1)))
        if begin is not None:
            actions.open_view(requests(begin))

    latest = values.dropna(subset=["value"]).iloc[::-1].reset_index(drop=True)
    begins = [starts[at] for at in millis(latest["bin"])]

    over_time(
        look,
        values[["bin", "value"]].assign(series=name),
        unit=f"{unit} {bin_words(rule.seconds)}",
        series=[name],
        number=form,
        bin_seconds=rule.seconds,
        behind=_behind(values, spans),
        behind_words=_words(values, spans, form),
        picked=picked,
        curve="step-after",
        part=part,
        data=latest[["bin", "value"]],
        labels={"value": unit},
        opens=lambda row: [("Show requests", requests(begins[row]))],
    )
    newest = f" The newest {duration((end - start).total_seconds())} of the range." if shortened else ""
    st.caption(
        f"Dashed: the bound. Shaded: the rule fired. A click on a mark opens the window's requests.{newest}"
    )
    return None


def requests_view(look: Look, rule: Rule, site: str, start: datetime, end: datetime) -> actions.Requests:
    """The requests that the rule's figure counts between two times."""
    selection = Selection(site, start, end, look.filters.zone, rule.filters)
    return actions.Requests(selection, requests_of(rule))


def _spans(look: Look, fired: pd.DataFrame, start: datetime, end: datetime) -> pd.DataFrame:
    """When the rule fired within the chart, as wall-clock times: columns `start`, `end`."""
    ends = pd.to_datetime(fired["ended_at"], utc=True).fillna(pd.Timestamp(end))
    kept = (ends > start) & (fired["window_start"] < end)
    spans = {
        "start": pd.to_datetime(fired["window_start"], utc=True)[kept].clip(lower=pd.Timestamp(start)),  # type: ignore[call-overload]
        "end": ends[kept].clip(upper=pd.Timestamp(end)),  # type: ignore[call-overload]
    }
    return pd.DataFrame({name: look.wall(times) for name, times in spans.items()}).sort_values("start")


def _behind(measured: pd.DataFrame, spans: pd.DataFrame) -> list[Layer]:
    tones = colors.tones()
    layers: list[Layer] = []
    if len(spans):
        values = [
            {"start": s, "end": e} for s, e in zip(millis(spans["start"]), millis(spans["end"]), strict=True)
        ]
        area = {"type": "rect", "color": tones["bad"], "opacity": 0.14, "stroke": None}
        across = {"x": {"field": "start", "type": "temporal", "scale": UTC_SCALE}, "x2": {"field": "end"}}
        layers.append({"data": {"values": values}, "mark": area, "encoding": across})
    for bound in ("lower", "upper"):
        line = measured.dropna(subset=[bound])
        if len(line):
            values = [{"at": at, "bound": v} for at, v in zip(millis(line["bin"]), line[bound], strict=True)]
            dashed = {
                "type": "line",
                "color": tones["quiet"],
                "strokeDash": [6, 4],
                "strokeWidth": 1.5,
                "interpolate": "step-after",
            }
            encoding = {
                "x": {"field": "at", "type": "temporal", "scale": UTC_SCALE},
                "y": {"field": "bound", "type": "quantitative"},
            }
            layers.append({"data": {"values": values}, "mark": dashed, "encoding": encoding})
    return layers


def _words(values: pd.DataFrame, spans: pd.DataFrame, form: str) -> str:
    parts = []
    for bound, name in (("lower", "Lower bound"), ("upper", "Upper bound")):
        known = values[bound].dropna()
        if len(known):
            least, most = (format(value, form) for value in (known.min(), known.max()))
            parts.append(f" {name}: {least if least == most else f'{least} to {most}'}.")
    times = [
        f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}" for start, end in spans.itertuples(index=False)
    ]
    return "".join(parts) + (f" Fired from {'; '.join(times[:10])}." if times else "")
