"""A figure over time: a chart with the notes of that time, the same in words, and the requests behind each mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import streamlit as st

from tidemark.figures import timespec
from tidemark.figures.bins import every_bin
from tidemark.figures.query import Condition
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection
from tidemark.figures.text import shown
from tidemark.figures.timespec import millis
from tidemark.figures.zones import window

from .. import colors
from ..controls import actions, compared
from ..controls.grid import count_column
from ..filters import Span
from ..panel import NOTHING, Look, nothing, some
from . import basic
from .chartdata import Opens, data_view
from .notemarks import note_marks, note_words

EARLIER = "the earlier period"
# Series of `stacked` beside the others together.
MOST = 7
# A figure of a selection by `bin` (UTC), whose length in seconds it gets.
Figure = Callable[[Rows, Selection, int], pd.DataFrame]
# What a series keeps of the requests: filters and further conditions.
Kept = tuple[tuple[Filter, ...], tuple[Condition, ...]]


@dataclass(frozen=True)
class Timed:
    """The rows of a figure by `bin` (UTC) of a span, and the same columns at the bins to compare with."""

    span: Span
    selection: Selection
    rows: pd.DataFrame
    before: pd.DataFrame | None = None

    def per_bin(self, unit: str) -> str:
        return f"{unit} {bin_words(self.span.bin_seconds)}"


def timed(
    look: Look, figure: Figure, message: str = NOTHING, *, finest: int = 60, hours: bool = False
) -> Timed:
    """A figure over the page's range, in bins of at least `finest` seconds; with `hours`, only full hours are compared
    where the range reaches now. Raises EmptyError with the message where there are no rows."""
    span, selection = look.span(finest), look.selection(finest)

    def counted(each: Selection) -> pd.DataFrame:
        return figure(look.rows, each, span.bin_seconds)

    rows = some(counted(selection), message, look)
    whole = compared.whole_hours(look, selection) if hours else selection
    return Timed(span, selection, rows, compared.over_time(look, whole, span, counted))


def bin_words(seconds: int) -> str:
    for name, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return f"per {name}" if seconds == length else f"per {seconds // length} {name}s"
    return f"per {seconds} seconds"


def timechart(
    look: Look,
    figure: Timed,
    names: Mapping[str, str],
    *,
    unit: str,
    kind: timespec.Kind = "line",
    number: str = ",.0f",
    height: int = timespec.HEIGHT,
    kept: Mapping[str, Kept] | None = None,
    sums: bool = True,
    links: bool = True,
    zoom: bool = True,
) -> None:
    """Draws columns of a figure under their `names`; missing bins are 0 where the values are `sums`.

    With `links`, a click on a mark opens the requests of its bin: those of the figure's selection that its series in
    `kept` keeps; so does a row of the chart's numbers. With `zoom`, a drag chooses the page's range.
    """
    span, frame, before = figure.span, figure.rows, figure.before
    columns, zone = list(names), look.filters.zone
    if sums:
        frame = every_bin(frame, look.start_of(span), look.end_of(span), span.bin_seconds, columns, zone=zone)
    long = basic.longer(frame, dict(names))
    if not sums:
        long = long.dropna(subset=["value"])
    bins = dict(zip(millis(look.wall(frame["bin"])), frame["bin"], strict=True))
    long["bin"] = look.wall(long["bin"])
    earlier = None
    if before is not None and len(before):
        known = {column: name for column, name in names.items() if column in before}
        if sums:  # up to the last bin that has any, because the period may end before the range does
            start, end = look.start_of(span), before["bin"].max().to_pydatetime()
            before = every_bin(before, start, end, span.bin_seconds, list(known), zone=zone)
        earlier = basic.longer(before, known).dropna(subset=["value"])
        earlier["bin"] = look.wall(earlier["bin"])

    alike = len({(kept or {}).get(name, ((), ())) for name in names.values()}) == 1

    def requests(start: pd.Timestamp, name: str) -> actions.Requests:
        bounds = figure.selection.shifted(*window(start, span.bin_seconds, zone))
        filters, where = (kept or {}).get(name, ((), ()))
        return actions.Requests(bounds.having(*filters), where)

    def picked(marks: list[dict[str, Any]]) -> None:
        start = bins.get(int(marks[0].get("at", -1)))
        if start is not None:
            actions.open_view(requests(start, str(marks[0].get("series", series[0]))))

    series = list(names.values())
    latest = frame.iloc[::-1].reset_index(drop=True)

    def opens(row: int) -> list[tuple[str, actions.Requests]]:
        """One for each series, or one for all where they are of the same requests."""
        views = {name: requests(latest["bin"][row], name) for name in series}
        return [("Show requests", views[series[0]])] if alike else list(views.items())

    over_time(
        look,
        long,
        unit=unit,
        series=series,
        kind=kind,
        number=number,
        height=height,
        bin_seconds=span.bin_seconds,
        before=earlier,
        picked=picked if links else None,
        within=(look.start_of(span), look.end_of(span)),
        data=latest.assign(bin=look.wall(latest["bin"]))[["bin", *columns]],
        labels=names,
        opens=opens if links else None,
        by_bin=alike,
        zoom=zoom,
    )


def over_time(
    look: Look,
    long: pd.DataFrame,
    *,
    unit: str,
    series: Sequence[str],
    zone: str | None = None,
    kind: timespec.Kind = "line",
    number: str = ",.0f",
    height: int = timespec.HEIGHT,
    bin_seconds: int = 60,
    before: pd.DataFrame | None = None,
    picked: basic.Picked | None = None,
    before_name: str = EARLIER,
    within: tuple[datetime, datetime] | None = None,
    behind: Sequence[timespec.Layer] = (),
    curve: timespec.Curve = "linear",
    behind_words: str = "",
    part: str = "",
    data: pd.DataFrame | None = None,
    labels: Mapping[str, str] | None = None,
    opens: Opens | None = None,
    by_bin: bool = True,
    zoom: bool = True,
) -> None:
    """Draws values over wall-clock time (`bin`, `series`, `value`), and says the same in words. Every chart over time
    is drawn here, so every one has the notes of its site: those `within` two times, by default those of the bins. The
    clock is that of `zone`, by default the page's.

    `before`, `behind` and `curve` as in `timespec.spec`; `behind_words` describes what is behind. `part` tells several
    charts of a panel apart. `data` are the chart's numbers by `bin`, by default those of the series, in columns called
    `labels`; `opens` says what a row of them opens. With `by_bin`, all series of a bin are of the same requests. With
    `zoom`, a drag chooses the page's range.
    """
    zone = zone or look.filters.zone
    if long["value"].isna().all():
        return nothing(look=look)
    marks = note_marks(look, zone, long["bin"], bin_seconds, within)
    last = long["bin"].max()
    is_open = last + pd.Timedelta(seconds=bin_seconds) > look.now.astimezone(ZoneInfo(zone)).replace(
        tzinfo=None
    )
    chart = timespec.spec(
        long,
        colors.paint(series),
        zone=zone,
        unit=unit,
        series=series,
        kind=kind,
        number=number,
        height=height,
        bin_seconds=bin_seconds,
        before=before,
        before_name=before_name,
        notes=marks,
        behind=behind,
        curve=curve,
        running=last if is_open else None,
        zoom=zoom,
        pick="" if picked is None else "bin" if by_bin and kind != "bar" else "mark",
    )
    words = timespec.described(long, unit)
    if is_open:
        words += " The last one is not over."
    if before is not None:
        words += f" Dashed: {before_name}."
    bins = pd.Series(sorted(long["bin"].unique()))

    def zoomed(low: float, high: float) -> None:
        actions.zoom(*_dragged(bins, bin_seconds, low, high, centred=kind != "bar"), zone)

    basic.draw(
        chart,
        look.key + part,
        words + behind_words + note_words(marks),
        picked,
        zoomed if zoom and len(bins) > 1 else None,
    )
    if data is None:
        data = long.pivot_table(index="bin", columns="series", values="value", aggfunc="sum")
        data = data[[name for name in series if name in data]].iloc[::-1].reset_index()
    start = st.column_config.DatetimeColumn(f"From ({zone})", format="YYYY-MM-DD HH:mm")
    named = {name: count_column((labels or {}).get(name, name)) for name in data.columns if name != "bin"}
    data_view(look, data, {"bin": start} | named, opens, part)
    return None


def _dragged(
    bins: pd.Series, seconds: int, low: float, high: float, *, centred: bool
) -> tuple[datetime, datetime]:
    """The whole bins between two values of `at`, as wall-clock times; the points of a line stand for what follows them,
    so a drag from one to another, `centred`, begins half a bin before."""
    width = seconds * 1000
    moved = width // 2 if centred else 0
    ats = np.array(millis(bins))
    first = max(int(np.searchsorted(ats, low + moved, side="right")) - 1, 0)
    last = max(int(np.searchsorted(ats, high + moved, side="left")) - 1, first)
    end = bins.iloc[last + 1] if last + 1 < len(bins) else bins.iloc[last] + pd.Timedelta(seconds=seconds)
    return bins.iloc[first].to_pydatetime(), end.to_pydatetime()


def stacked(
    look: Look,
    figure: Timed,
    by: str,
    value: str,
    *,
    named: Callable[[str], str] = str,
    height: int = timespec.HEIGHT,
    zoom: bool = True,
) -> None:
    """Bars over time of the largest values of a column `by`, a field of filters, and of the others together. A click
    opens the requests with that value. `named` is a value for people. The period to compare with is drawn as a line of
    its sum."""
    rows, before = figure.rows, figure.before
    raw = {shown(named(v)) or "(none)": v for v in rows[by].unique()}
    names_of = {v: name for name, v in raw.items()}
    rows = rows.assign(**{by: rows[by].map(names_of)})
    kept, names = basic.top_series(rows, by, value, MOST)
    wide = kept.pivot_table(index="bin", columns="series", values=value, aggfunc="sum", fill_value=0)
    shown_ones = [raw[name] for name in names if name != colors.OTHER]
    picks: dict[str, Kept] = {names_of[v]: ((actions.is_filter(by, v),), ()) for v in shown_ones}
    picks[colors.OTHER] = ((Filter(by, "is not", tuple(map(str, shown_ones))),), ())
    if before is not None and len(before):
        sums = before.groupby("bin", as_index=False)[[value]].sum()
        before = sums.rename(columns={value: names[0]})
    timechart(
        look,
        replace(figure, rows=wide.reset_index(), before=before),
        {name: name for name in names},
        unit=figure.per_bin(value.capitalize()),
        kind="bar",
        kept=picks,
        height=height,
        zoom=zoom,
    )
