"""Specifications of charts over time, as Vega takes them."""

from __future__ import annotations

from typing import Literal, get_args

import pandas as pd
import pytest

from tidemark.figures import timespec
from tidemark.figures.timespec import Kind, Paint


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("pick", ["bin", "mark"])
def test_a_chart_has_each_selection_once(kind: Kind, pick: Literal["bin", "mark"]) -> None:
    """Vega draws nothing where two layers have a selection of the same name."""
    bins = pd.date_range("2026-03-09", periods=4, freq="h")
    frame = pd.concat([pd.DataFrame({"bin": bins, "series": name, "value": 1.0}) for name in ("a", "b")])
    paint = Paint(("#000", "#111"), "#222", "#fff")

    chart = timespec.spec(
        frame,
        paint,
        zone="UTC",
        unit="Requests",
        series=["a", "b"],
        kind=kind,
        bin_seconds=3600,
        pick=pick,
        zoom=True,
    )

    names = [each["name"] for layer in chart["layer"] for each in layer.get("params", ())]
    assert len(names) == len(set(names)) and timespec.PICK in names
