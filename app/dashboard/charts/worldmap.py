"""A world map without a network: country outlines are a file beside this one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from tidemark.figures.timespec import PICK

from .. import country

OUTLINES = Path(__file__).parent / "map" / "countries-110m.json"
HEIGHT = 340
ANTARCTICA = "010"


@cache
def outlines() -> dict[str, Any]:
    """The outlines as TopoJSON, each country under its ISO numeric code; Antarctica has no visitors."""
    topology: dict[str, Any] = json.loads(OUTLINES.read_text(encoding="utf-8"))
    countries = topology["objects"]["countries"]
    countries["geometries"] = [g for g in countries["geometries"] if g.get("id") != ANTARCTICA]
    for geometry in countries["geometries"]:
        geometry["id"] = int(geometry.get("id", -1))
    return topology


def chart(frame: pd.DataFrame, unit: str, *, dark: bool) -> dict[str, Any]:
    """Countries shaded by a count, on a log scale, because one country often has most of the visitors.

    `frame` has `country` (ISO alpha-2) and `value`; countries without an outline appear only in the table. Returns a
    Vega-Lite specification, because Altair takes half a second to build and check one at every refresh.
    """
    values = [
        {"id": int(number), "code": code, "name": country.name(code), "value": int(value)}
        for code, value in zip(frame["country"], frame["value"], strict=True)
        if value > 0 and (number := country.numeric(code)) is not None
    ]
    land, line, low, high = (
        ("#252d3b", "#10151e", "#1d4a55", "#5eead4") if dark else ("#e6eaf0", "#ffffff", "#b9e3e0", "#0b6e75")
    )
    # The chart's alternative text and its numbers say what the countries show.
    shape = {"type": "geoshape", "aria": False, "stroke": line, "strokeWidth": 0.5}
    layers: list[dict[str, Any]] = [{"mark": {**shape, "fill": land}}]
    if values:
        layers.append(
            {
                "mark": {**shape, "cursor": "pointer"},
                "params": [{"name": PICK, "select": {"type": "point", "fields": ["code"]}}],
                "transform": [
                    {
                        "lookup": "id",
                        "from": {
                            "data": {"values": values},
                            "key": "id",
                            "fields": ["code", "name", "value"],
                        },
                    },
                    {"filter": "isValid(datum.value)"},
                ],
                "encoding": {"color": _color(values, unit, low, high), "tooltip": _tooltip(unit)},
            }
        )
    return {
        "data": {"values": outlines(), "format": {"type": "topojson", "feature": "countries"}},
        "projection": {"type": "naturalEarth1"},
        "height": HEIGHT,
        "layer": layers,
    }


def _color(values: list[dict[str, Any]], unit: str, low: str, high: str) -> dict[str, Any]:
    most = max(2, *(one["value"] for one in values))
    return {
        "field": "value",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1, most], "range": [low, high]},
        "legend": {
            "title": f"{unit} (log scale)",
            "orient": "bottom-left",
            "direction": "horizontal",
            "gradientLength": 130,
            "gradientThickness": 10,
            "format": "~s",
            "values": [1, most],
        },
    }


def _tooltip(unit: str) -> list[dict[str, str]]:
    return [
        {"field": "name", "type": "nominal", "title": "Country"},
        {"field": "value", "type": "quantitative", "title": unit, "format": ","},
    ]
