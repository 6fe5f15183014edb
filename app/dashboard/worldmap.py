"""A world map that needs no network: country outlines come from a file beside this one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from . import country

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


def chart(frame: pd.DataFrame, unit: str, *, dark: bool) -> alt.LayerChart:
    """Countries shaded by a count, on a log scale: one country often has most of the visitors.

    `frame` has `country` (ISO alpha-2) and `value`; countries without an outline are left to the table.
    """
    values = frame.assign(id=[country.numeric(c) for c in frame["country"]]).dropna(subset=["id"])
    values = values[values["value"] > 0]
    values = pd.DataFrame(
        {
            "id": values["id"].astype(int),
            "name": [country.name(c) for c in values["country"]],
            "value": values["value"].astype(int),
        }
    )
    land, line, low, high = (
        ("#252d3b", "#10151e", "#1d4a55", "#5eead4") if dark else ("#e6eaf0", "#ffffff", "#b9e3e0", "#0b6e75")
    )
    shapes = alt.Data(values=outlines(), format=alt.TopoDataFormat(type="topojson", feature="countries"))
    ground = alt.Chart(shapes).mark_geoshape(fill=land, stroke=line, strokeWidth=0.5)
    if values.empty:
        return alt.layer(ground).project("naturalEarth1").properties(height=HEIGHT)
    most = max(int(values["value"].max()), 2)
    shaded = (
        alt.Chart(shapes)
        .transform_lookup(lookup="id", from_=alt.LookupData(values, "id", ["name", "value"]))
        .transform_filter("isValid(datum.value)")
        .mark_geoshape(stroke=line, strokeWidth=0.5)
        .encode(
            color=alt.Color(
                "value:Q",
                scale=alt.Scale(type="log", domain=[1, most], range=[low, high]),
                legend=alt.Legend(
                    title=unit,
                    orient="bottom-left",
                    direction="horizontal",
                    gradientLength=130,
                    gradientThickness=10,
                    format="~s",
                    tickCount=3,
                ),
            ),
            tooltip=[alt.Tooltip("name:N", title="Country"), alt.Tooltip("value:Q", title=unit, format=",")],
        )
    )
    return alt.layer(ground, shaded).project("naturalEarth1").properties(height=HEIGHT)
