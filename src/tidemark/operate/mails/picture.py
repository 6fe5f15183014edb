"""Charts of a report as PNG pictures, drawn by Vega-Lite without a browser.

Their background is transparent and their colours have enough contrast with white and with black, so one picture
suits light and dark mails.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from tidemark.errors import PlatformError
from tidemark.figures import timespec
from tidemark.figures.digest import BINS, Digest
from tidemark.figures.timespec import Kind, Paint

WIDTH, HEIGHT, _SCALE = 440, 165, 2
# By series.
_COLORS = {"Visitors": "#14919b", "4xx": "#c98a1b", "5xx": "#d64545"}
_QUIET, _TEXT = "#8a96a3", "#76828f"
_ERRORS = {"status_4xx": "4xx", "status_5xx": "5xx"}


def pictures(digest: Digest) -> dict[str, bytes]:
    """PNG by file name: visitors over time, and failed requests if there are any. Raises PlatformError without the
    library."""
    if digest.is_empty:
        return {}
    specs = {"visitors.png": _spec(digest, {"visitors": "Visitors"}, "Visitors", "line")}
    if digest.over_time[list(_ERRORS)].to_numpy().any():
        specs["errors.png"] = _spec(digest, _ERRORS, "Failed requests", "bar")
    return {name: _png(spec) for name, spec in specs.items()}


def _spec(digest: Digest, names: dict[str, str], unit: str, kind: Kind) -> dict[str, Any]:
    """The dashboard's chart of columns of `over_time`; of a line, with the period before."""
    period = digest.period
    series = list(names.values())
    before = None
    if kind == "line" and len(digest.before):
        moved = digest.before["bin"] + (period.start - period.before.start)
        before = _long(digest.before.assign(bin=moved), names, period.zone)
    return timespec.spec(
        _long(digest.over_time, names, period.zone),
        Paint(tuple(_COLORS[name] for name in series), _QUIET, "none"),
        zone=period.zone,
        unit=unit,
        series=series,
        kind=kind,
        height=HEIGHT,
        bin_seconds=BINS[period.every],
        before=before,
    )


def _long(frame: pd.DataFrame, names: dict[str, str], zone: str) -> pd.DataFrame:
    """Columns under their names as rows, at the wall-clock times of their bins."""
    local = pd.to_datetime(frame["bin"], utc=True).dt.tz_convert(ZoneInfo(zone)).dt.tz_localize(None)
    return frame.assign(bin=local).rename(columns=names).melt("bin", list(names.values()), "series", "value")


def _png(spec: dict[str, Any]) -> bytes:
    try:
        import vl_convert
    except ImportError as error:
        raise PlatformError(
            "reports have no charts: vl-convert-python is missing", "Install `tidemark[reports]`."
        ) from error
    text = {"labelColor": _TEXT, "titleColor": _TEXT, "labelFontSize": 12}
    axis = {**text, "gridColor": _TEXT, "gridOpacity": 0.2, "domainColor": _TEXT, "tickColor": _TEXT}
    drawn = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": WIDTH,
        "background": None,
        "config": {"view": {"stroke": None}, "axis": axis, "legend": text},
        **spec,
        "datasets": {name: rows.to_dict("records") for name, rows in spec["datasets"].items()},
    }
    png: bytes = vl_convert.vegalite_to_png(drawn, scale=_SCALE)
    return png
