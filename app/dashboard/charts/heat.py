"""Heat maps: a count by two things, such as hour and weekday."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tidemark.figures.timespec import PICK, note_layers

from .. import colors


def heat(
    frame: pd.DataFrame,
    x: str,
    y: str,
    value: str,
    *,
    x_title: str,
    unit: str,
    rows: Sequence[Any],
    columns: Sequence[Any],
    height: int,
    notes: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Cells coloured by a count; `rows` and `columns` are the values of `y` from the top, and of `x` from the left.
    `notes` (`x`, `when`, `text`) are marks at values of `x`."""
    data = frame[[x, y, value]].rename(columns={x: "x", y: "y", value: "value"})
    low, high = ("#1b2b35", "#5eead4") if colors.is_dark() else ("#e3f1f1", "#0b5c63")
    scale = {"type": "sqrt", "range": [low, high], "domain": [0, max(float(data["value"].max()), 1.0)]}
    along: dict[str, Any] = {
        "field": "x",
        "type": "ordinal",
        "title": x_title,
        "sort": list(columns),
        "scale": {"domain": list(columns)},
        "axis": {
            "labelAngle": 0,
            "labelOverlap": "greedy",
            "labelSeparation": 8,
            "ticks": False,
            "domain": False,
        },
    }
    across = {"labelLimit": 150, "labelOverlap": False, "labelFlush": False, "ticks": False, "domain": False}
    legend = {
        "title": unit,
        "orient": "top",
        "gradientLength": 140,
        "gradientThickness": 8,
        "tickCount": 3,
        "format": "~s",
        "direction": "horizontal",
    }
    cells: dict[str, Any] = {
        "data": {"name": "cells"},
        "params": [{"name": PICK, "select": {"type": "point", "fields": ["x", "y"]}}],
        "mark": {"type": "rect", "stroke": None, "cursor": "pointer"},
        "encoding": {
            "x": along,
            "y": {
                "field": "y",
                "type": "ordinal",
                "title": "",
                "sort": list(rows),
                "axis": across,
                "scale": {"domain": list(rows)},
            },
            "color": {"field": "value", "type": "quantitative", "scale": scale, "legend": legend},
            "tooltip": [
                {"field": "x", "type": "ordinal", "title": x_title},
                {"field": "y", "type": "ordinal", "title": ""},
                {"field": "value", "type": "quantitative", "title": unit, "format": ",.0f"},
            ],
        },
    }
    datasets = {"cells": data}
    layers = [cells]
    if notes is not None and len(notes):
        datasets["notes"] = notes[["x", "when", "text"]]
        wide, rule, flag = note_layers({"field": "x", "type": "ordinal"}, colors.tones()["quiet"])
        layers = [wide, rule, cells, flag]
    return {"datasets": datasets, "layer": layers, "height": height}
