"""Heat maps: a count by two things, such as hour and weekday."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from .. import colors
from .basic import HEIGHT, PICK
from .drawn import Drawn
from .notemarks import with_notes


def heat(
    frame: pd.DataFrame,
    x: str,
    y: str,
    value: str,
    *,
    x_title: str,
    y_title: str,
    unit: str,
    rows: Sequence[Any],
    columns: Sequence[Any] | None = None,
    height: int = HEIGHT,
    notes: pd.DataFrame | None = None,
    pick: bool = False,
) -> Drawn:
    """Cells coloured by a count; `rows` and `columns` are the values of `y` from the top, and of `x` from the left.
    `notes` (`x`, `when`, `text`) are marks at values of `x`."""
    data = frame[[x, y, value]].rename(columns={x: "x", y: "y", value: "value"})
    low, high = ("#1b2b35", "#5eead4") if colors.is_dark() else ("#e3f1f1", "#0b5c63")
    scale = alt.Scale(type="sqrt", range=[low, high], domain=[0, max(float(data["value"].max()), 1.0)])
    axis = alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=8, ticks=False, domain=False)
    across = alt.Axis(labelLimit=150, labelOverlap=False, labelFlush=False, ticks=False, domain=False)
    chart = alt.Chart(data).mark_rect(stroke=None, cursor="pointer" if pick else "default")
    chart = chart.encode(
        x=alt.X(
            "x:O",
            title=x_title,
            sort=None if columns is None else list(columns),
            axis=axis,
            scale=alt.Scale(domain=list(columns)) if columns is not None else alt.Undefined,
        ),
        y=alt.Y("y:O", title=y_title, sort=list(rows), scale=alt.Scale(domain=list(rows)), axis=across),
        color=alt.Color(
            "value:Q",
            scale=scale,
            legend=alt.Legend(
                title=unit,
                orient="top",
                gradientLength=140,
                gradientThickness=8,
                tickCount=3,
                format="~s",
                direction="horizontal",
            ),
        ),
        tooltip=[
            alt.Tooltip("x:O", title=x_title),
            alt.Tooltip("y:O", title=y_title),
            alt.Tooltip("value:Q", title=unit, format=",.0f"),
        ],
    )
    if pick:
        chart = chart.add_params(alt.selection_point(name=PICK, fields=["x", "y"]))
    return with_notes(chart, notes, alt.X("x:O"), height)
