"""Charts in one style. Their text is data for the canvas, never markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from tidemark.figures.timespec import HEIGHT, PICK, ZOOM

from .. import colors
from ..colors import OTHER

# Imported by those who draw with it: a page whose charts are all specifications is there sooner.
if TYPE_CHECKING:
    import altair as alt

# A range of two values on two lines, so that more of them have room beside each other.
TWO_LINES = "split(replace(datum.label, ' – ', ' –|'), '|')"
Picked = Callable[[list[dict[str, Any]]], None]
# Gets two values of `at`.
Zoomed = Callable[[float, float], None]


def draw(
    chart: alt.TopLevelMixin | dict[str, Any],
    key: str,
    alt: str | None = None,
    picked: Picked | None = None,
    zoomed: Zoomed | None = None,
) -> None:
    """Draws a chart, or a Vega-Lite specification, with a stable key, so that a refresh updates it in place.

    `alt` says in words what it shows. `picked` gets the fields of the mark that was clicked, if the chart lets marks be
    picked; `zoomed` gets the two values of `at` that were dragged between, if it has that selection.
    """
    settings: dict[str, Any] = {"width": "stretch", "key": f"chart-{key}", "alt": alt}
    if isinstance(chart, dict) and not _has_marks(chart):
        picked = None
    modes = ([PICK] if picked is not None else []) + ([ZOOM] if zoomed is not None else [])
    if modes:

        def callback() -> None:
            state, last = st.session_state, f"zoom-{key}"
            selection = state[f"chart-{key}"]["selection"]
            at = [float(value) for ends in (selection.get(ZOOM) or {}).values() for value in ends]
            # The chart keeps what was dragged over; a later event has it, too.
            if zoomed is not None and len(at) == 2 and at != state.get(last):
                state[last] = at
                zoomed(min(at), max(at))
            elif picked is not None and (marks := selection.get(PICK)):
                picked(list(marks))

        settings |= {"on_select": callback, "selection_mode": modes}
    # Streamlit's own grey has too little contrast (WCAG 2.2, 1.4.3).
    text: dict[str, Any] = {"labelColor": colors.tones()["quiet"], "titleColor": colors.tones()["quiet"]}
    if isinstance(chart, dict):
        own = {"axis": text, "legend": text} | chart.get("config", {})
        st.vega_lite_chart(chart | {"config": own}, **settings)
    else:
        st.altair_chart(chart.configure_axis(**text).configure_legend(**text), **settings)


def _has_marks(view: dict[str, Any]) -> bool:
    """Whether marks can be picked: a map of countries without outlines has none, for example."""
    return any(param["name"] == PICK for param in view.get("params", ())) or any(
        map(_has_marks, view.get("layer", ()))
    )


def longer(frame: pd.DataFrame, names: dict[str, str], time: str = "bin") -> pd.DataFrame:
    """Converts columns to rows: `time`, `series` (the given name of the column) and `value`."""
    long = frame[[time, *names]].rename(columns=names).melt(time, var_name="series", value_name="value")
    long["value"] = pd.to_numeric(long["value"])
    return long


def ranking(frame: pd.DataFrame, label: str, value: str, unit: str) -> alt.Chart:
    """Horizontal bars with their numbers, the largest on top."""
    import altair as alt

    data = frame[[label, value]].rename(columns={label: "label", value: "value"})
    name = alt.value(colors.of([unit])[0])
    names = alt.Axis(labelLimit=150, labelOverlap=False, labelFlush=False, ticks=False, domain=False)
    base = alt.Chart(data).encode(
        color=name,
        y=alt.Y("label:N", title=None, sort=None, axis=names),
        x=alt.X("value:Q", title=unit, axis=_value_axis(4)),
        tooltip=[alt.Tooltip("label:N", title=" "), alt.Tooltip("value:Q", title=unit, format=",.0f")],
    )
    height = max(len(data), 2) * 26 + 50
    bars: alt.Chart = base.mark_bar(cornerRadiusEnd=3).properties(height=height)
    return bars


def columns(
    frame: pd.DataFrame, label: str, value: str, x_title: str, unit: str, *, pick: bool = False
) -> alt.Chart:
    """Vertical bars in the given order, for example a histogram with named ranges. With `pick`, a click on a bar picks
    its `label`."""
    import altair as alt

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


def _value_axis(ticks: int = 5) -> alt.Axis:
    import altair as alt

    label = "format(datum.value, '~s')"
    return alt.Axis(labelExpr=label, tickCount=ticks, domain=False, ticks=False, tickMinStep=1)
