"""Charts over time as Vega-Lite specifications, for the dashboard and for mails. They are plain dictionaries, because
Altair takes far longer to build and check one at every refresh than the figures take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from tidemark.figures import endlabels

HEIGHT = 260
# What a chart gains in height for each name in a legend.
ROW = 8
# Lines up to this many are labelled at their ends, without a legend, where there is room.
LABELLED = 3
# Names of the selections: a mark that was clicked, and the time that was dragged over.
PICK, ZOOM = "pick", "zoom"
# How a line goes from one value to the next; a value that holds until the next one is a step.
Curve = Literal["linear", "step-after"]
Kind = Literal["line", "area", "bar"]
Layer = dict[str, Any]

UTC_SCALE = {"type": "utc"}
SO_FAR = " (so far)"
_DAY = 86_400_000
# A bar ends a little before the next one begins. With fewer bins than FEW, a bar is as wide as with FEW of them.
BAR = 0.92
FEW = 12
# The chart must not move or scale its selections, which are done when the button is released.
_DRAG = {"type": "interval", "encodings": ["x"], "translate": False, "zoom": False}
_RELEASED = "[pointerdown, window:mouseup] > window:pointerup"
_UNSEEN = {"fillOpacity": 0, "strokeOpacity": 0}


@dataclass(frozen=True)
class Paint:
    """The colours of a chart: of its series, of marks in the background, and around text on marks."""

    series: tuple[str, ...]
    quiet: str
    halo: str


def spec(
    frame: pd.DataFrame,
    paint: Paint,
    *,
    zone: str,
    unit: str,
    series: Sequence[str],
    kind: Kind = "line",
    height: int = HEIGHT,
    number: str = ",.0f",
    bin_seconds: int = 60,
    before: pd.DataFrame | None = None,
    before_name: str = "the earlier period",
    notes: pd.DataFrame | None = None,
    behind: Sequence[Layer] = (),
    curve: Curve = "linear",
    running: pd.Timestamp | None = None,
    pick: Literal["", "bin", "mark"] = "",
    zoom: bool = False,
) -> dict[str, Any]:
    """Values over wall-clock time (`bin`, `series`, `value`); kind: line, area or bar (stacked).

    A rule marks the bin nearest to the pointer, and a hint has the values of all series. `before` has the
    same columns, of the period compared with (or `before_name`), moved to this one's times: dashed lines. `notes` as in
    `note_layers`. `behind` are further layers of a chart of lines. `running` is the bin that is not over, which is
    dashed or pale. With `pick`, a click picks a bin's time (`at`, epoch milliseconds of the wall clock), of a mark its
    series, too; with `zoom`, a drag selects a range of `at`.
    """
    width = bin_seconds * 1000
    known = before if before is not None and len(before) else None
    bins = _wide(frame, known, series, before_name, running)
    long = frame.assign(at=millis(frame["bin"]))[["at", "series", "value"]].reset_index(drop=True)
    long["order"] = long["series"].map({name: i for i, name in enumerate(series)})
    open_at = None if running is None else int(millis(pd.Series([running])).iloc[0])
    tooltip = [{"field": "when", "type": "nominal", "title": "Time"}]
    tooltip += [
        {"field": name, "type": "quantitative", "title": title, "format": number}
        for name, title in _titles(series, known, before_name).items()
    ]
    ends = None
    if kind == "line" and 1 < len(series) <= LABELLED:
        ends = endlabels.places(long, "at", pd.concat([long, known])["value"].max(), height)
    legend = _legend(kind) if len(series) > 1 and ends is None else None
    if legend is not None:
        # On a phone, a legend of many has several rows.
        height += ROW * max(0, len(series) - 2)
    scale = {"domain": list(series), "range": list(paint.series)}
    color = {"field": "series", "type": "nominal", "scale": scale, "legend": legend}
    x: Layer = {"field": "at", "type": "temporal", "title": f"Time ({zone})"}
    x |= {"scale": UTC_SCALE, "axis": _time_axis(width)}
    first, last = int(bins["at"].min()), int(bins["at"].max()) + width
    if kind == "bar":
        x |= {"scale": UTC_SCALE | {"domain": [first, last]}, "axis": _time_axis(width, end=last)}
    data: dict[str, pd.DataFrame] = {"bins": bins, "long": long}
    pointed = _pointed(x, tooltip, width, kind, pick if pick == "bin" else "", zoom, paint.quiet)
    if kind == "bar":
        data["long"] = _stacked(long, width, (last - first) // width, open_at)
        layers = [*pointed, *_bars(x, color, unit, tooltip, pick, empty=data["long"].empty)]
    else:
        axis = _value_axis(whole="f" not in number or ".0" in number)
        y = {"field": "value", "type": "quantitative", "title": unit, "stack": None, "axis": axis}
        encoding = {"x": x, "y": y, "color": color}
        layers = [*behind, *_lines(encoding, kind, curve, known is not None, long, open_at, data), *pointed]
        if pick == "mark":
            data["points"] = long.merge(bins, on="at")
            layers.append(_points(encoding, tooltip))
    if known is not None:
        earlier = known.assign(at=millis(known["bin"]))[["at", "series", "value"]]
        if kind == "bar":
            earlier = earlier.groupby("at", as_index=False)[["value"]].sum()
            earlier["at"] += width // 2
        data["earlier"] = earlier.sort_values("at").reset_index(drop=True)
        layers.insert(
            len(layers) if kind == "bar" else len(behind), _earlier(x, color, kind, curve, paint.quiet)
        )
    if ends is not None:
        data["ends"] = ends
        layers += endlabels.layers(color, paint.halo)
    if notes is not None and len(notes):
        data["notes"] = notes.assign(time=millis(notes["time"])).drop(columns="bin", errors="ignore")
        wide, rule, flag = note_layers({"field": "time", "type": "temporal", "scale": UTC_SCALE}, paint.quiet)
        layers = [wide, rule, *layers, flag]
    return {
        "datasets": data,
        "layer": layers,
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
    }


def described(frame: pd.DataFrame, unit: str) -> str:
    """A chart over time in words: of each series, the least, the greatest with its time, and the last value."""
    known = frame.dropna(subset=["value"])
    if known.empty:
        return f"{unit} over time: nothing."
    parts = []
    for name, rows in known.groupby("series", sort=False):
        most = rows.iloc[int(rows["value"].astype(float).argmax())]
        parts.append(
            f"{name}: from {rows['value'].min():,.6g} to {most['value']:,.6g} (at {most['bin']:%Y-%m-%d %H:%M}), "
            f"last {rows.sort_values('bin')['value'].iloc[-1]:,.6g}"
        )
    return f"{unit} over time. " + "; ".join(parts) + "."


def note_layers(x: Layer, color: str) -> tuple[Layer, Layer, Layer]:
    """The notes of the dataset `notes` (`when`, `text`, and the field of `x`): lines that go behind the chart, so that
    its own marks can be hovered and clicked, and flags at its top."""
    encoding = {
        "x": x,
        "tooltip": [
            {"field": "when", "type": "nominal", "title": "Note"},
            {"field": "text", "type": "nominal", "title": " "},
        ],
    }
    data = {"name": "notes"}
    # The chart's alternative text has the notes.
    rule = {"type": "rule", "color": color, "strokeWidth": 1.5, "strokeDash": [2, 3], "aria": False}
    flag = {
        "type": "point",
        "aria": False,
        "color": color,
        "shape": "triangle-down",
        "filled": True,
        "size": 110,
        "opacity": 1,
        "yOffset": 4,
    }
    return (
        {"data": data, "mark": rule | {"strokeWidth": 12, "opacity": 0}, "encoding": encoding},
        {"data": data, "mark": rule, "encoding": encoding},
        {"data": data, "mark": flag, "encoding": encoding | {"y": {"value": 0}}},
    )


def millis(times: pd.Series) -> pd.Series:
    """Wall-clock times as epoch milliseconds, which the marks of charts have as `at`."""
    values: pd.Series = times.astype("datetime64[ms]").astype("int64")
    return values


def _titles(series: Sequence[str], before: pd.DataFrame | None, before_name: str) -> dict[str, str]:
    """The columns of the hint and their titles."""
    titles = {f"s{i}": name for i, name in enumerate(series)}
    if before is not None:
        names = [name for name in series if (before["series"] == name).any()]
        many = len(names) > 1
        titles |= {
            f"e{series.index(name)}": f"{name}, {before_name}" if many else before_name for name in names
        }
    return titles


def _wide(
    frame: pd.DataFrame,
    before: pd.DataFrame | None,
    series: Sequence[str],
    before_name: str,
    running: pd.Timestamp | None,
) -> pd.DataFrame:
    """A row for each bin with the values of all series: `s0`, `s1` … and, of the earlier period, `e0`, `e1` …"""
    parts = []
    for letter, rows in (("s", frame), ("e", before)):
        if rows is not None and len(rows):
            wide = rows.pivot_table(index="bin", columns="series", values="value", aggfunc="first")
            parts.append(wide.rename(columns={name: f"{letter}{i}" for i, name in enumerate(series)}))
    bins = pd.concat(parts, axis=1).sort_index().reindex(columns=list(_titles(series, before, before_name)))
    bins = bins.rename_axis("bin").reset_index()
    when = bins["bin"].dt.strftime("%Y-%m-%d %H:%M")
    bins["when"] = when.where(bins["bin"] != running, when + SO_FAR) if running is not None else when
    return bins.assign(at=millis(bins["bin"])).drop(columns="bin")


def _pointed(
    x: Layer, tooltip: list[Layer], width: int, kind: Kind, pick: str, zoom: bool, quiet: str
) -> list[Layer]:
    """Unseen columns, one for each bin, that have the hint and take clicks and drags, and the rule at the one that the
    pointer is at."""
    params: list[Layer] = [
        {
            "name": "near",
            "select": {"type": "point", "fields": ["at"], "on": "pointerover", "clear": "pointerout"},
        }
    ]
    if pick:
        params.append({"name": PICK, "select": {"type": "point", "fields": ["at"]}})
    if zoom:
        params.append({"name": "brush", "select": _DRAG})
        params.append({"name": ZOOM, "select": {**_DRAG, "on": _RELEASED, "clear": False, "mark": _UNSEEN}})
    before, after = (0, width) if kind == "bar" else (width // 2, width - width // 2)
    near = {"param": "near", "empty": False}
    column = {
        "data": {"name": "bins"},
        "transform": [
            {"calculate": f"datum.at - {before}", "as": "left"},
            {"calculate": f"datum.at + {after}", "as": "right"},
        ],
        "mark": {
            "type": "rect",
            "cursor": "pointer" if pick else "crosshair" if zoom else "default",
            "aria": False,
        },
        "params": params,
        "encoding": {
            "x": x | {"field": "left"},
            "x2": {"field": "right"},
            "opacity": {"condition": {**near, "value": 0.1 if kind == "bar" else 0}, "value": 0},
            "tooltip": tooltip,
        },
    }
    if kind == "bar":
        return [column]
    rule = {
        "data": {"name": "bins"},
        "mark": {"type": "rule", "color": quiet, "aria": False},
        "encoding": {"x": x, "opacity": {"condition": {**near, "value": 0.8}, "value": 0}},
    }
    return [rule, column]


def _stacked(long: pd.DataFrame, width: int, bins: int, open_at: int | None) -> pd.DataFrame:
    """Bars with both ends, stacked here, because Vega does not stack bars with both ends on the time axis."""
    bars = long[long["value"] > 0].sort_values(["at", "order"])
    top = bars.groupby("at")["value"].cumsum()
    wide = int(width * BAR * min(bins / FEW, 1))
    left = bars["at"] + (int(width * BAR) - wide) // 2
    return bars.assign(
        left=left, until=left + wide, top=top, bottom=top - bars["value"], open=bars["at"] == open_at
    ).reset_index(drop=True)


def _bars(x: Layer, color: Layer, unit: str, tooltip: list[Layer], pick: str, *, empty: bool) -> list[Layer]:
    params = (
        [{"name": PICK, "select": {"type": "point", "fields": ["at", "series"]}}] if pick == "mark" else []
    )
    lookup = {"data": {"name": "bins"}, "key": "at", "fields": [each["field"] for each in tooltip]}
    bars: Layer = {
        "data": {"name": "long"},
        "transform": [{"lookup": "at", "from": lookup}],
        # A group without any bar would be an image without a name.
        "mark": {"type": "rect", "cursor": "pointer" if pick else "default", "aria": not empty},
        "encoding": {
            "x": x | {"field": "left"},
            "x2": {"field": "until"},
            "y": {"field": "bottom", "type": "quantitative", "title": unit, "axis": _value_axis()},
            "y2": {"field": "top"},
            "color": color,
            # A bar that is not over is pale, with an edge.
            "fillOpacity": {"condition": {"test": "datum.open", "value": 0.35}, "value": 1},
            "stroke": {
                "condition": {"test": "datum.open", **{k: v for k, v in color.items() if k != "legend"}},
                "value": None,
            },
            "tooltip": tooltip,
        },
    }
    return [bars | {"params": params}] if params else [bars]


def _lines(
    encoding: Layer,
    kind: Kind,
    curve: Curve,
    pale: bool,
    long: pd.DataFrame,
    open_at: int | None,
    data: dict[str, pd.DataFrame],
) -> list[Layer]:
    """Lines or areas; the way to the bin that is not over is dashed."""
    over = long if open_at is None else long[long["at"] != open_at]
    data["long"] = over.reset_index(drop=True)
    mark: Layer = {"type": "line", "strokeWidth": 2, "interpolate": curve}
    if kind == "area":
        mark = {"type": "area", "opacity": 0.45 if pale else 0.8, "interpolate": curve}
    layers = [{"data": {"name": "long"}, "mark": mark, "encoding": encoding}]
    if open_at is not None:
        last = over.sort_values("at").groupby("series").tail(1)
        data["open"] = pd.concat([last, long[long["at"] == open_at]], ignore_index=True)
        dashed = {"type": "line", "strokeWidth": 2, "strokeDash": [2, 3], "interpolate": curve}
        layers.append({"data": {"name": "open"}, "mark": dashed, "encoding": encoding})
    alone = long[long.groupby("series")["value"].transform("count") == 1]
    if len(alone):  # a line of one point is not seen
        data["alone"] = alone.reset_index(drop=True)
        point = {"type": "point", "filled": True, "size": 40, "opacity": 1}
        layers.append({"data": {"name": "alone"}, "mark": point, "encoding": encoding})
    return layers


def _points(encoding: Layer, tooltip: list[Layer]) -> Layer:
    """Unseen points that take the clicks on a series."""
    return {
        "data": {"name": "points"},
        "mark": {
            "type": "point",
            "aria": False,
            "size": 120,
            "opacity": 0,
            "fillOpacity": 0,
            "cursor": "pointer",
        },
        "params": [{"name": PICK, "select": {"type": "point", "fields": ["at", "series"]}}],
        "encoding": encoding | {"tooltip": tooltip},
    }


def _earlier(x: Layer, color: Layer, kind: Kind, curve: Curve, quiet: str) -> Layer:
    tone = {"value": quiet} if kind == "bar" else color
    mark = {"type": "line", "strokeWidth": 1.5, "strokeDash": [5, 4], "opacity": 0.75, "interpolate": curve}
    y = {"field": "value", "type": "quantitative"}
    return {"data": {"name": "earlier"}, "mark": mark, "encoding": {"x": x, "y": y, "color": tone}}


def _legend(kind: Kind) -> Layer:
    strokes = {} if kind == "bar" else {"symbolType": "stroke", "symbolStrokeWidth": 3}
    return {
        "title": None,
        "orient": "top",
        "columns": {"expr": "max(1, floor(width / 125))"},
        "symbolLimit": 12,
        "labelLimit": 150,
        "offset": 6,
        **strokes,
    }


def _value_axis(*, whole: bool = True) -> Layer:
    least = {"tickMinStep": 1} if whole else {}
    return {
        "labelExpr": "format(datum.value, '~s')",
        "tickCount": 5,
        "domain": False,
        "ticks": False,
        **least,
    }


def _time_axis(width: int, end: int | None = None) -> Layer:
    """The axis for bins of `width` milliseconds. It has no label at `end`, where no bin begins."""
    # At most one label per 90 pixels, because labels overlap on a phone.
    midnight = "utchours(datum.value) + utcminutes(datum.value) + utcseconds(datum.value) == 0"
    over = "" if end is None else f"datum.value >= {end} ? '' : "
    # Over a few minutes the labels are less than a minute apart.
    time = "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S' : '%H:%M')" if width < _DAY else "''"
    return {
        "grid": False,
        "labelExpr": f"{over}{midnight} ? utcFormat(datum.value, '%b %-d') : {time}",
        "labelOverlap": "greedy",
        "labelSeparation": 12,
        "tickCount": {"expr": "width / 90"},
    }
