"""The names of lines at their ends, in place of a legend."""

from __future__ import annotations

from typing import Any

import pandas as pd

# The height of a label, and of what is above and below a chart's lines, in pixels.
HEIGHT = 15
AXES = 80


def places(data: pd.DataFrame, time: str, most: float, height: int) -> pd.DataFrame | None:
    """The last row of each series with the place of its label, moved up where labels would lie on each other. `most` is
    the greatest value of the chart, `height` its pixels.

    None where one would be too far from its line.
    """
    ends = data.sort_values(time).groupby("series", as_index=False).last().sort_values("value")
    least = max(float(most), 1e-9) * HEIGHT / max(height - AXES, HEIGHT)
    at: list[float] = []
    for value in ends["value"]:
        at.append(max(float(value), at[-1] + least) if at else float(value))
    ends = ends.assign(label_at=at)
    return ends if (ends["label_at"] - ends["value"]).max() <= 1.01 * least else None


def layers(color: dict[str, Any], halo: str) -> list[dict[str, Any]]:
    """The names of the series at the ends of their lines, which are the dataset `ends`, each with a halo of this
    colour."""
    style = {
        "type": "text",
        "align": "right",
        "baseline": "bottom",
        "dy": -5,
        "fontSize": 12,
        "fontWeight": 600,
    }
    encoding = {
        "x": {"field": "at", "type": "temporal"},
        "y": {"field": "label_at", "type": "quantitative"},
        "text": {"field": "series", "type": "nominal"},
    }
    around = {"stroke": halo, "strokeWidth": 4, "strokeJoin": "round", "color": halo}
    return [
        {"data": {"name": "ends"}, "mark": style | around, "encoding": encoding},
        {"data": {"name": "ends"}, "mark": style, "encoding": encoding | {"color": color}},
    ]
