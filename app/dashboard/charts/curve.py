"""Curves of retention: the share that came again, by the number of periods after the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from tidemark.figures.timespec import HEIGHT

from .. import colors

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Again:
    """So many of these visitors came again."""

    visitors: float
    of: float

    @property
    def share(self) -> float:
        return self.visitors / self.of


# The visitors of each line by the number of periods.
Lines = Mapping[str, Mapping[int, Again]]


def table(curves: Lines) -> pd.DataFrame:
    """The points of all lines, with the columns name, after, share, visitors and of."""
    rows = [
        (name, after, again.share, again.visitors, again.of)
        for name, line in curves.items()
        for after, again in line.items()
    ]
    return pd.DataFrame(rows, columns=["name", "after", "share", "visitors", "of"])


def lines(curves: Lines, title: str) -> alt.LayerChart | alt.FacetChart:
    """One line with points for each name; a single one has its shares beside the points."""
    import altair as alt

    data = table(curves)
    legend = alt.Legend(
        title=None, orient="top", columns=alt.ExprRef("max(1, floor(width / 170))"), labelLimit=200
    )
    base = alt.Chart(data).encode(
        x=alt.X("after:Q", title=title, scale=alt.Scale(nice=False, padding=12), axis=_whole(data)),
        y=alt.Y("share:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(format="~%", tickCount=5)),
        color=alt.Color(
            "name:N",
            sort=list(curves),
            scale=alt.Scale(domain=list(curves), range=colors.of(list(curves))),
            legend=legend if len(curves) > 1 else None,
        ),
        tooltip=[
            alt.Tooltip("name:N", title="Cohort"),
            alt.Tooltip("after:Q", title="After"),
            alt.Tooltip("share:Q", title="Came again", format=".1%"),
            alt.Tooltip("visitors:Q", title="Visitors", format=",.0f"),
            alt.Tooltip("of:Q", title="Of", format=",.0f"),
        ],
    )
    layers = [base.mark_line(strokeWidth=2), base.mark_point(size=45, filled=True, opacity=1)]
    if len(curves) == 1:
        ink = colors.ink()
        text = base.mark_text(dy=-11, fontSize=12, color=ink)
        digits = ".0%" if data["share"].max() >= 0.1 else ".1%"
        layers.append(text.encode(text=alt.Text("share:Q", format=digits), color=alt.value(ink)))
    return alt.layer(*layers).properties(height=HEIGHT)


def _whole(data: pd.DataFrame) -> alt.Axis:
    import altair as alt

    values = list(range(1, int(data["after"].max()) + 1))
    return alt.Axis(values=values, format="d", grid=False, labelOverlap="greedy")


def words(curves: Lines, unit: str) -> str:
    parts = [
        f"{name}: "
        + ", ".join(f"{again.share:.1%} of {again.of:,.0f} after {after}" for after, again in line.items())
        for name, line in curves.items()
    ]
    return f"Share of visitors who came again, by {unit}s after the first. {'; '.join(parts)}."
