"""The steps of a funnel as bars, each under its name and with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from .. import colors

if TYPE_CHECKING:
    import altair as alt

ROW = 46


def bars(frame: pd.DataFrame, unit: str) -> alt.LayerChart:
    """Bars of `count` with the columns `name` and `label`, from the top. `before`, where it is not NaN, is marked on
    the bar: the count at the earlier period's share."""
    import altair as alt

    data = frame.assign(
        place=range(len(frame)),
        top=[i + 0.42 for i in range(len(frame))],
        bottom=[i + 0.86 for i in range(len(frame))],
    )
    ink = "#e6edf3" if colors.is_dark() else "#1f2937"
    most = max(float(data["count"].max()), 1.0)
    across = alt.X("count:Q", axis=None, scale=alt.Scale(domain=[0, most * 1.0], nice=False))
    down = alt.Scale(domain=[0, len(data)], reverse=True, nice=False)
    tooltip = [
        alt.Tooltip("name:N", title="Step"),
        alt.Tooltip("count:Q", title=unit, format=",.0f"),
        alt.Tooltip("label:N", title="Reached"),
    ]
    base = alt.Chart(data).encode(tooltip=tooltip)
    bar = base.mark_rect(color=colors.of([unit])[0], cornerRadius=3, opacity=0.85).encode(
        x=across, x2=alt.datum(0), y=alt.Y("top:Q", axis=None, scale=down), y2="bottom:Q"
    )
    text = base.mark_text(
        align="left", baseline="bottom", dx=1, color=ink, fontSize=13, limit=alt.ExprRef("width - 130")
    )
    name = text.encode(x=alt.datum(0), y=alt.Y("top:Q", scale=down), text="name:N", tooltip=tooltip)
    number = base.mark_text(align="right", baseline="bottom", dx=-1, color=ink, fontSize=13, fontWeight=600)
    numbers = number.encode(x=alt.datum(most), y=alt.Y("top:Q", scale=down), text="label:N")
    layers = [bar, name, numbers]
    if "before" in data and data["before"].notna().any():
        mark = base.transform_filter("isValid(datum.before)").mark_rule(
            color=ink, strokeWidth=2, strokeDash=[3, 2]
        )
        layers.append(mark.encode(x=alt.X("before:Q"), y=alt.Y("top:Q", scale=down), y2="bottom:Q"))
    chart: alt.LayerChart = (
        alt.layer(*layers).properties(height=ROW * len(data) + 6).configure_view(stroke=None)
    )
    return chart
