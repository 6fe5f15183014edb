"""Charts of a report as PNG pictures, drawn by Vega-Lite without a browser.

Their background is transparent and their colours have enough contrast with white and with black, so one picture
suits light and dark mails.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from tidemark.errors import PlatformError
from tidemark.figures.digest import Digest

WIDTH, HEIGHT, _SCALE = 440, 140, 2
_VISITORS, _BEFORE, _CLIENT, _SERVER, _TEXT = "#14919b", "#8a96a3", "#c98a1b", "#d64545", "#76828f"


def pictures(found: Digest) -> dict[str, bytes]:
    """PNG by file name: visitors over time, and failed requests if there are any. Raises PlatformError without the
    library."""
    if found.is_empty:
        return {}
    specs = {"visitors.png": _visitors(found)}
    if found.over_time[["status_4xx", "status_5xx"]].to_numpy().any():
        specs["errors.png"] = _errors(found)
    return {name: _png(spec) for name, spec in specs.items()}


def _png(spec: dict[str, Any]) -> bytes:
    try:
        import vl_convert
    except ImportError as error:
        raise PlatformError(
            "reports have no charts: vl-convert-python is missing", "Install `tidemark[reports]`."
        ) from error
    png: bytes = vl_convert.vegalite_to_png(spec, scale=_SCALE)
    return png


def _visitors(found: Digest) -> dict[str, Any]:
    time = _time(found)
    line = {"x": time, "y": _count("visitors")}
    now = {
        "data": {"values": _values(found.over_time, found)},
        "mark": {"type": "line", "color": _VISITORS, "strokeWidth": 2.5, "interpolate": "monotone"},
        "encoding": line,
    }
    layers = [now]
    if len(found.before):
        moved = found.before.assign(
            bin=found.before["bin"] + (found.period.start - found.period.before.start)
        )
        before = {
            "data": {"values": _values(moved, found)},
            "mark": {
                "type": "line", "color": _BEFORE, "strokeDash": [4, 3], "strokeWidth": 1.5, "interpolate": "monotone",
            },
            "encoding": line,
        }  # fmt: skip
        layers.insert(0, before)
    return _chart({"layer": layers})


def _errors(found: Digest) -> dict[str, Any]:
    names = {"status_4xx": "4xx", "status_5xx": "5xx"}
    long = found.over_time.melt("bin", list(names), "status", "requests")
    long["status"] = long["status"].map(names)
    color = {
        "field": "status", "type": "nominal", "title": None, "legend": {"orient": "top", "symbolType": "square"},
        "scale": {"domain": list(names.values()), "range": [_CLIENT, _SERVER]},
    }  # fmt: skip
    bar = {
        "data": {"values": _values(long, found)},
        "mark": {"type": "bar", "width": 0.75 * WIDTH / max(1, len(found.over_time))},
        "encoding": {
            "x": _time(found),
            "y": _count("requests"),
            "color": color,
        },
    }
    return _chart(bar)


def _chart(parts: dict[str, Any]) -> dict[str, Any]:
    text = {"labelColor": _TEXT, "titleColor": _TEXT, "labelFontSize": 12}
    axis = {**text, "gridColor": _TEXT, "gridOpacity": 0.2, "domainColor": _TEXT, "tickColor": _TEXT}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": WIDTH,
        "height": HEIGHT,
        "background": None,
        "config": {"view": {"stroke": None}, "axis": axis, "legend": text},
        **parts,
    }


def _count(name: str) -> dict[str, Any]:
    axis = {"title": None, "tickCount": 4, "format": "~s", "domain": False, "ticks": False}
    return {"field": name, "type": "quantitative", "axis": axis}


def _time(found: Digest) -> dict[str, Any]:
    form = {"day": "%H:%M", "week": "%a %-d", "month": "%-d %b"}[found.period.every]
    axis = {"title": None, "grid": False, "format": form, "labelAngle": 0, "tickCount": 6}
    return {"field": "time", "type": "temporal", "axis": axis, "scale": {"padding": 8}}


def _values(frame: pd.DataFrame, found: Digest) -> list[dict[str, Any]]:
    """The rows with the wall-clock time of their bin, which the chart shows as it is."""
    local = pd.to_datetime(frame["bin"], utc=True).dt.tz_convert(ZoneInfo(found.period.zone))
    shown = frame.drop(columns="bin").assign(time=local.dt.strftime("%Y-%m-%dT%H:%M:%S"))
    columns = [shown[name].tolist() for name in shown.columns]
    return [dict(zip(shown.columns, row, strict=True)) for row in zip(*columns, strict=True)]
