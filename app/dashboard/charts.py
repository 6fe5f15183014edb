"""Charts in one style. Their text is data for the canvas, never markup."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

HEIGHT = 260
# Height of a legend below a chart, added to a chart without one so that neighbours align.
LEGEND = 24
OTHER = "Other"


def draw(chart: alt.TopLevelMixin | dict[str, Any], key: str) -> None:
    """Draws a chart, or a Vega-Lite specification, with a stable key, so that a refresh updates
    it in place."""
    if isinstance(chart, dict):
        st.vega_lite_chart(chart, width="stretch", key=f"chart-{key}")
    else:
        st.altair_chart(chart, width="stretch", key=f"chart-{key}")


def filled(
    frame: pd.DataFrame,
    start: datetime,
    end: datetime,
    seconds: int,
    values: Sequence[str],
    time: str = "bin",
) -> pd.DataFrame:
    """One row for every time bin in [start, end]: bins without rows count 0."""
    step = pd.Timedelta(seconds=seconds)
    first = pd.Timestamp(start).floor(step)
    bins = pd.date_range(first, max(pd.Timestamp(end), first), freq=step, name=time)
    summed = frame.groupby(time)[list(values)].sum() if len(frame) else pd.DataFrame(columns=list(values))
    return summed.reindex(bins, fill_value=0).reset_index()


def longer(frame: pd.DataFrame, names: dict[str, str], time: str = "bin") -> pd.DataFrame:
    """Converts columns to rows: `time`, `series` (the given name of the column) and `value`."""
    long = frame[[time, *names]].rename(columns=names).melt(time, var_name="series", value_name="value")
    long["value"] = pd.to_numeric(long["value"])
    return long


def over_time(
    frame: pd.DataFrame,
    *,
    zone: str,
    unit: str,
    series: Sequence[str],
    kind: str = "line",
    colors: Sequence[str] | None = None,
    height: int = HEIGHT,
    number: str = ",.0f",
    bin_seconds: int = 60,
    time: str = "bin",
) -> alt.Chart:
    """Values over wall-clock time (`time`, `series`, `value`); kind: line, area or bar (stacked)."""
    data = frame.assign(when=frame[time].dt.strftime("%Y-%m-%d %H:%M"))
    order = {name: i for i, name in enumerate(series)}
    data["order"] = data["series"].map(order)
    data[time] = data[time].dt.tz_localize("UTC")
    scale = alt.Scale(domain=list(series), **({"range": list(colors)} if colors else {}))
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=alt.ExprRef("max(1, floor(width / 125))"),
        symbolLimit=12,
        labelLimit=150,
        offset=6,
    )
    x = alt.X(f"{time}:T", title=f"Time ({zone})", scale=alt.Scale(type="utc"), axis=_time_axis())
    color = alt.Color("series:N", scale=scale, legend=legend if len(series) > 1 else None)
    tooltip = [
        alt.Tooltip("when:N", title="Time"),
        alt.Tooltip("series:N", title="What"),
        alt.Tooltip("value:Q", title=unit, format=number),
    ]
    y = alt.Y("value:Q", title=unit, stack=None, axis=_value_axis(whole="f" not in number or ".0" in number))
    if kind == "bar":
        # Stacked here, because Vega does not stack bars with both ends on the time axis.
        every, data = data, data[data["value"] > 0].sort_values([time, "order"])
        data["until"] = data[time] + pd.Timedelta(seconds=bin_seconds * 0.92)
        data["top"] = data.groupby(time)["value"].cumsum()
        data["bottom"] = data["top"] - data["value"]
        axis = x.scale(type="utc", domain=_span((every if data.empty else data)[time], bin_seconds))
        low = alt.Y("bottom:Q", title=unit, axis=_value_axis())
        bars = alt.Chart(data).mark_rect(stroke=None)
        bars = bars.encode(x=axis, x2="until:T", y=low, y2="top:Q", color=color, tooltip=tooltip)
        return bars.properties(height=height)
    base = alt.Chart(data).encode(x=x, y=y, color=color, tooltip=tooltip)
    if kind == "area":
        return base.mark_area(opacity=0.8, interpolate="monotone").properties(height=height)
    lines = base.mark_line(strokeWidth=2, interpolate="monotone")
    points = base.mark_point(size=120, opacity=0, fillOpacity=0)
    return (lines + points).properties(height=height)


def _span(bins: pd.Series, bin_seconds: int) -> list[float]:
    """Bounds of the time axis, in epoch milliseconds: room for at least a dozen bars, so that few bars are not too
    wide."""
    step = pd.Timedelta(seconds=bin_seconds)
    end = bins.max() + step
    start = min(bins.min(), end - 12 * step)
    return [start.timestamp() * 1000, end.timestamp() * 1000]


def ranking(frame: pd.DataFrame, label: str, value: str, unit: str, *, height_per_row: int = 26) -> alt.Chart:
    """Horizontal bars with their numbers, the largest on top."""
    data = frame[[label, value]].rename(columns={label: "label", value: "value"})
    base = alt.Chart(data).encode(
        y=alt.Y("label:N", title=None, sort=None, axis=alt.Axis(labelLimit=150, ticks=False, domain=False)),
        x=alt.X("value:Q", title=unit, axis=_value_axis(4)),
        tooltip=[alt.Tooltip("label:N", title=" "), alt.Tooltip("value:Q", title=unit, format=",.0f")],
    )
    return base.mark_bar(cornerRadiusEnd=3).properties(height=max(len(data), 2) * height_per_row + 50)


def columns(frame: pd.DataFrame, label: str, value: str, x_title: str, unit: str) -> alt.Chart:
    """Vertical bars in the given order, for example a histogram with named ranges."""
    data = frame[[label, value]].rename(columns={label: "label", value: "value"})
    return (
        alt.Chart(data)
        .mark_bar(cornerRadiusEnd=3)
        .encode(
            x=alt.X(
                "label:N",
                title=x_title,
                sort=None,
                axis=alt.Axis(labelAngle=0, ticks=False, labelOverlap=True),
            ),
            y=alt.Y("value:Q", title=unit, axis=_value_axis()),
            tooltip=[
                alt.Tooltip("label:N", title=x_title),
                alt.Tooltip("value:Q", title=unit, format=",.0f"),
            ],
        )
        .properties(height=HEIGHT)
    )


def top_series(frame: pd.DataFrame, series: str, value: str, most: int) -> tuple[pd.DataFrame, list[str]]:
    """Keeps the `most` largest series and sums the others as "Other". Also returns the names, largest first."""
    order = frame.groupby(series)[value].sum().sort_values(ascending=False, kind="stable")
    names = list(order.index[:most])
    kept = frame.assign(series=frame[series].where(frame[series].isin(names), OTHER))
    if len(order) > most:
        names.append(OTHER)
    return kept, names


def _value_axis(ticks: int = 5, *, whole: bool = True) -> alt.Axis:
    least = {"tickMinStep": 1} if whole else {}
    label = "format(datum.value, '~s')"
    return alt.Axis(labelExpr=label, tickCount=ticks, domain=False, ticks=False, **least)


def _time_axis() -> alt.Axis:
    # At most one label per 90 pixels, because labels overlap on a phone.
    midnight = "utchours(datum.value) + utcminutes(datum.value) + utcseconds(datum.value) == 0"
    # Over a few minutes the labels are less than a minute apart.
    time = "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S' : '%H:%M')"
    label = f"{midnight} ? utcFormat(datum.value, '%b %-d') : {time}"
    ticks = alt.ExprRef("width / 90")
    return alt.Axis(grid=False, labelExpr=label, labelOverlap="greedy", labelSeparation=12, tickCount=ticks)


def colors(dark: bool) -> dict[str, Any]:
    """Colours with a meaning, readable on the theme's background."""
    if dark:
        return {"good": "#34d399", "warn": "#fbbf24", "bad": "#f87171", "info": "#60a5fa", "quiet": "#94a3b8"}
    return {"good": "#0f9d76", "warn": "#d98a04", "bad": "#d64545", "info": "#2f6fde", "quiet": "#8492a6"}


def is_dark() -> bool:
    """Whether the reader of the page has the dark theme on."""
    return getattr(st.context.theme, "type", None) == "dark"


def themed() -> dict[str, Any]:
    return colors(is_dark())
