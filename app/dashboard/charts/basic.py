"""Charts in one style. Their text is data for the canvas, never markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

import altair as alt
import pandas as pd
import streamlit as st

from tidemark.figures import zones

from .. import colors
from ..colors import OTHER
from . import endlabels
from .drawn import Drawn
from .notemarks import with_notes

HEIGHT = 260
# Height of a legend, added to a chart without one so that neighbours align.
LEGEND = 24
# What a chart gains in height for each name in a legend.
ROW = 8
# Lines up to this many are labelled at their ends, without a legend, where there is room.
LABELLED = 3
# A range of two values on two lines, so that more of them have room beside each other.
TWO_LINES = "split(replace(datum.label, ' – ', ' –|'), '|')"
PICK = "pick"
# How a line goes from one value to the next; a value that holds until the next one is a step.
Curve = Literal["monotone", "linear", "step-after"]
Picked = Callable[[list[dict[str, Any]]], None]


def draw(
    chart: alt.TopLevelMixin | dict[str, Any], key: str, alt: str | None = None, picked: Picked | None = None
) -> None:
    """Draws a chart, or a Vega-Lite specification, with a stable key, so that a refresh updates it in place.

    `alt` says in words what it shows. `picked` gets the fields of the mark that was clicked, if the chart lets marks be
    picked.
    """
    settings: dict[str, Any] = {"width": "stretch", "key": f"chart-{key}", "alt": alt}
    if picked is not None:

        def callback() -> None:
            marks = st.session_state[f"chart-{key}"]["selection"].get(PICK)
            if marks:
                picked(list(marks))

        settings |= {"on_select": callback, "selection_mode": PICK}
    # Streamlit's own grey has too little contrast (WCAG 2.2, 1.4.3).
    text: dict[str, Any] = {"labelColor": colors.tones()["quiet"], "titleColor": colors.tones()["quiet"]}
    if isinstance(chart, dict):
        own = {"axis": text, "legend": text} | chart.get("config", {})
        st.vega_lite_chart(chart | {"config": own}, **settings)
    else:
        st.altair_chart(chart.configure_axis(**text).configure_legend(**text), **settings)


def filled(
    frame: pd.DataFrame,
    start: datetime,
    end: datetime,
    seconds: int,
    values: Sequence[str],
    time: str = "bin",
    zone: str = "UTC",
) -> pd.DataFrame:
    """One row for every time bin of a zone in [start, end]: bins without rows count 0."""
    bins = pd.DatetimeIndex(zones.starts(start, end, seconds, zone), name=time)
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
    height: int = HEIGHT,
    number: str = ",.0f",
    bin_seconds: int = 60,
    time: str = "bin",
    before: pd.DataFrame | None = None,
    notes: pd.DataFrame | None = None,
    before_name: str = "the earlier period",
    behind: Sequence[alt.Chart] = (),
    curve: Curve = "monotone",
    pick: bool = False,
) -> Drawn:
    """Values over wall-clock time (`time`, `series`, `value`); kind: line, area or bar (stacked).

    `before` has the same columns, of the period compared with (or `before_name`), moved to this one's times: dashed
    lines. `notes` as in `with_notes`, with a `time`. `behind` are further layers of a chart of lines. With `pick`, a
    click on a mark picks its time (epoch milliseconds of the wall clock) and series.
    """
    data = frame.assign(when=frame[time].dt.strftime("%Y-%m-%d %H:%M"))
    order = {name: i for i, name in enumerate(series)}
    data["order"] = data["series"].map(order)
    data[time] = data[time].dt.tz_localize("UTC")
    data["at"] = data[time].astype("datetime64[ms, UTC]").astype("int64")
    ends = None
    if kind == "line" and 1 < len(series) <= LABELLED:
        ends = endlabels.places(data, time, pd.concat([data, before])["value"].max())
    scale = alt.Scale(domain=list(series), range=colors.of(series))
    legend = None
    if len(series) > 1 and ends is None:
        strokes: dict[str, Any] = {"symbolType": "stroke", "symbolStrokeWidth": 3}
        legend = alt.Legend(
            title=None,
            orient="top",
            columns=alt.ExprRef("max(1, floor(width / 125))"),
            symbolLimit=12,
            labelLimit=150,
            offset=6,
            **({} if kind == "bar" else strokes),
        )
        # On a phone, a legend of many has several rows.
        height += ROW * max(0, len(series) - 2)
    x = alt.X(f"{time}:T", title=f"Time ({zone})", scale=alt.Scale(type="utc"), axis=_time_axis())
    at_note = alt.X("time:T", scale=alt.Scale(type="utc"))
    color = alt.Color("series:N", scale=scale, legend=legend)
    tooltip = [
        alt.Tooltip("when:N", title="Time"),
        alt.Tooltip("series:N", title="What"),
        alt.Tooltip("value:Q", title=unit, format=number),
    ]
    y = alt.Y("value:Q", title=unit, stack=None, axis=_value_axis(whole="f" not in number or ".0" in number))
    picking = [alt.selection_point(name=PICK, fields=["at", "series"])] if pick else []
    if kind == "bar":
        # Stacked here, because Vega does not stack bars with both ends on the time axis.
        every, data = data, data[data["value"] > 0].sort_values([time, "order"])
        data["until"] = data[time] + pd.Timedelta(seconds=bin_seconds * 0.92)
        data["top"] = data.groupby(time)["value"].cumsum()
        data["bottom"] = data["top"] - data["value"]
        bins = (every if data.empty else data)[time]
        if before is not None and len(before):
            bins = pd.concat([bins, before[time].dt.tz_localize("UTC")])
        axis = x.scale(type="utc", domain=_span(bins, bin_seconds))
        low = alt.Y("bottom:Q", title=unit, axis=_value_axis())
        bars = alt.Chart(data).mark_rect(stroke=None, cursor="pointer" if pick else "default")
        bars = bars.encode(x=axis, x2="until:T", y=low, y2="top:Q", color=color, tooltip=tooltip)
        bars = bars.add_params(*picking)
        if before is None or before.empty:
            # Of a chart without layers, Vega-Lite leaves empty space above the legend.
            return with_notes(alt.layer(bars), notes, at_note, height)
        sums = before.groupby(time, as_index=False)["value"].sum()
        sums = sums.assign(series=f"{before_name[:1].upper()}{before_name[1:]}")
        middle = sums.assign(**{time: sums[time] + pd.Timedelta(seconds=bin_seconds / 2)})
        line = _dashed(middle, sums[time], time, x, tooltip, before_name)
        line = line.encode(color=alt.value(colors.tones()["quiet"]))
        return with_notes(alt.layer(bars, line), notes, at_note, height)
    base = alt.Chart(data).encode(x=x, y=y, color=color, tooltip=tooltip)
    if kind == "area":
        area = base.mark_area(opacity=0.8 if before is None else 0.45, interpolate="monotone")
        layers = [*behind, area.add_params(*picking)]
    else:
        layers = [*behind, base.mark_line(strokeWidth=2, interpolate=curve)]
    if before is not None and len(before):
        dashed = _dashed(before, before[time], time, x, tooltip, before_name, curve)
        layers.append(dashed.encode(color=color))
    if kind == "area":
        return with_notes(alt.layer(*layers), notes, at_note, height)
    points = base.mark_point(size=120, opacity=0, fillOpacity=0, cursor="pointer" if pick else "default")
    layers.append(points.add_params(*picking))
    alone = data[data.groupby("series")["value"].transform("count") == 1]
    if len(alone):  # a line of one point is not seen
        layers.append(
            alt.Chart(alone).mark_point(filled=True, size=40, opacity=1).encode(x=x, y=y, color=color)
        )
    if ends is not None:
        layers.append(endlabels.labels(ends, time, color))
    return with_notes(alt.layer(*layers), notes, at_note, height)


def _dashed(
    before: pd.DataFrame,
    bins: pd.Series,
    time: str,
    x: alt.X,
    tooltip: list[alt.Tooltip],
    name: str,
    curve: Curve = "monotone",
) -> alt.Chart:
    """The period called `name` as dashed lines; `bins` are the times that a hint shows."""
    earlier = before.assign(when=bins.dt.strftime("%Y-%m-%d %H:%M"))
    earlier[time] = earlier[time].dt.tz_localize("UTC")
    titles = [tooltip[0], alt.Tooltip("series:N", title=name), tooltip[2]]
    dashed = alt.Chart(earlier).encode(x=x, y=alt.Y("value:Q"), tooltip=titles)
    line: alt.Chart = dashed.mark_line(strokeWidth=1.5, strokeDash=[5, 4], opacity=0.75, interpolate=curve)
    return line


def described(frame: pd.DataFrame, unit: str, time: str = "bin") -> str:
    """A chart over time in words: of each series, the least, the greatest with its time, and the last value."""
    known = frame.dropna(subset=["value"])
    if known.empty:
        return f"{unit} over time: nothing."
    parts = []
    for name, rows in known.groupby("series", sort=False):
        most = rows.iloc[int(rows["value"].astype(float).argmax())]
        parts.append(
            f"{name}: from {rows['value'].min():,.6g} to {most['value']:,.6g} (at {most[time]:%Y-%m-%d %H:%M}), "
            f"last {rows.sort_values(time)['value'].iloc[-1]:,.6g}"
        )
    return f"{unit} over time. " + "; ".join(parts) + "."


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
    name = alt.value(colors.of([unit])[0])
    names = alt.Axis(labelLimit=150, labelOverlap=False, labelFlush=False, ticks=False, domain=False)
    base = alt.Chart(data).encode(
        color=name,
        y=alt.Y("label:N", title=None, sort=None, axis=names),
        x=alt.X("value:Q", title=unit, axis=_value_axis(4)),
        tooltip=[alt.Tooltip("label:N", title=" "), alt.Tooltip("value:Q", title=unit, format=",.0f")],
    )
    height = max(len(data), 2) * height_per_row + 50
    bars: alt.Chart = base.mark_bar(cornerRadiusEnd=3).properties(height=height)
    return bars


def columns(
    frame: pd.DataFrame, label: str, value: str, x_title: str, unit: str, *, pick: bool = False
) -> alt.Chart:
    """Vertical bars in the given order, for example a histogram with named ranges. With `pick`, a click on a bar picks
    its `label`."""
    data = frame[[label, value]].rename(columns={label: "label", value: "value"})
    picking = [alt.selection_point(name=PICK, fields=["label"])] if pick else []
    bars: alt.Chart = (
        alt.Chart(data)
        .mark_bar(cornerRadiusEnd=3, cursor="pointer" if pick else "default")
        .encode(
            color=alt.value(colors.of([unit])[0]),
            x=alt.X(
                "label:N",
                title=x_title,
                sort=None,
                axis=alt.Axis(
                    labelAngle=0, ticks=False, labelOverlap=True, labelFlush=False, labelExpr=TWO_LINES
                ),
            ),
            y=alt.Y("value:Q", title=unit, axis=_value_axis()),
            tooltip=[
                alt.Tooltip("label:N", title=x_title),
                alt.Tooltip("value:Q", title=unit, format=",.0f"),
            ],
        )
        .add_params(*picking)
        .properties(height=HEIGHT)
    )
    return bars


def top_series(frame: pd.DataFrame, series: str, value: str, most: int) -> tuple[pd.DataFrame, list[str]]:
    """Keeps the `most` largest series and sums the others as "Other". Also returns the names, largest first."""
    order = frame.groupby(series)[value].sum().sort_values(ascending=False, kind="stable")
    names = list(order.index[:most])
    kept = frame.assign(series=frame[series].where(frame[series].isin(names), OTHER))
    if len(order) > most:
        names.append(OTHER)
    return kept, names


def _value_axis(ticks: int = 5, *, whole: bool = True) -> alt.Axis:
    least: dict[str, Any] = {"tickMinStep": 1} if whole else {}
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
