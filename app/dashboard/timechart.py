"""A figure over time: a chart, the same in words, and the requests behind each of its marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pandas as pd
import streamlit as st

from . import actions, charts, colors
from .figures.query import Condition
from .figures.selection import Filter, Selection
from .filters import Span
from .grid import count_column, grid
from .panel import Look
from .text import shown

# What a series keeps of the requests: filters and further conditions.
Kept = tuple[tuple[Filter, ...], tuple[Condition, ...]]


def bin_words(seconds: int) -> str:
    for name, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return f"per {name}" if seconds == length else f"per {seconds // length} {name}s"
    return f"per {seconds} seconds"


def timechart(
    look: Look,
    frame: pd.DataFrame,
    names: Mapping[str, str],
    *,
    span: Span,
    unit: str,
    kind: str = "line",
    number: str = ",.0f",
    height: int = charts.HEIGHT,
    before: pd.DataFrame | None = None,
    selection: Selection | None = None,
    kept: Mapping[str, Kept] | None = None,
    table: bool = False,
    sums: bool = True,
) -> None:
    """Draws columns of a frame by `bin` (UTC) under their `names`; missing bins are 0 where the values are `sums`.

    `before` has the same columns at the bins to compare with. A click on a mark opens the requests of its bin: those of
    `selection` that its series in `kept` keeps. With `table`, the numbers can be unfolded below.
    """
    columns = list(names)
    if sums:
        frame = charts.filled(frame, look.start_of(span), look.end_of(span), span.bin_seconds, columns)
    long = charts.longer(frame, dict(names))
    if not sums:
        long = long.dropna(subset=["value"])
    bins = dict(zip(_millis(look.wall(frame["bin"])), frame["bin"], strict=True))
    long["bin"] = look.wall(long["bin"])
    earlier = None
    if before is not None and len(before):
        earlier = charts.longer(before, dict(names)).dropna(subset=["value"])
        earlier["bin"] = look.wall(earlier["bin"])
    series = list(names.values())
    chart = charts.over_time(
        long, zone=look.filters.zone, unit=unit, series=series, kind=kind, number=number, height=height,
        bin_seconds=span.bin_seconds, before=earlier, pick=selection is not None,
    )  # fmt: skip

    def picked(marks: list[dict[str, Any]]) -> None:
        start = bins.get(int(marks[0].get("at", -1)))
        if start is None or selection is None:
            return
        end = start + timedelta(seconds=span.bin_seconds)
        filters, where = (kept or {}).get(str(marks[0].get("series")), ((), ()))
        bounds = selection.shifted(start.to_pydatetime(), end.to_pydatetime())
        actions.open_view(actions.Requests(bounds.having(*filters), where))

    words = charts.described(long, unit)
    if earlier is not None:
        words += " Dashed: the earlier period."
    charts.draw(chart, look.key, words, picked if selection is not None else None)
    if table:
        with st.expander("As a table"):
            rows = frame.assign(bin=look.wall(frame["bin"]))[["bin", *columns]].iloc[::-1]
            start = st.column_config.DatetimeColumn(f"From ({look.filters.zone})", format="YYYY-MM-DD HH:mm")
            grid(rows, look.key, {"bin": start} | {c: count_column(label) for c, label in names.items()})


def stacked(
    look: Look,
    found: pd.DataFrame,
    by: str,
    value: str,
    *,
    span: Span,
    unit: str,
    most: int = 7,
    selection: Selection | None = None,
    field: str = "",
    named: Callable[[str], str] = str,
    height: int = charts.HEIGHT,
) -> None:
    """Bars over time of the `most` largest values of a column `by`, and of the others together; `found` has a column
    `bin`. A click opens the requests with that value of `field`. `named` is a value for people."""
    raw = {shown(named(v)) or "(none)": v for v in found[by].unique()}
    names_of = {v: name for name, v in raw.items()}
    found = found.assign(**{by: found[by].map(names_of)})
    kept, names = charts.top_series(found, by, value, most)
    wide = kept.pivot_table(index="bin", columns="series", values=value, aggfunc="sum", fill_value=0)
    picks = {
        name: ((actions.is_filter(field, raw[name]),), ()) for name in names if field and name != colors.OTHER
    }
    timechart(
        look, wide.reset_index(), {name: name for name in names}, span=span, unit=unit, kind="bar",
        selection=selection, kept=picks, height=height,
    )  # fmt: skip


def _millis(times: pd.Series) -> list[int]:
    found: list[int] = times.astype("datetime64[ms]").astype("int64").tolist()
    return found
