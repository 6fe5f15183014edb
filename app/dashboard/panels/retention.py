"""Retention: of the visitors who first came in a day, week or month, how many came again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures import retention, silver, walk_queries
from tidemark.figures.comparison import Change
from tidemark.figures.periods import Every
from tidemark.figures.reader import Reader
from tidemark.figures.retention import Retention
from tidemark.figures.selection import Selection
from tidemark.figures.silver import REQUESTS
from tidemark.figures.text import number, percent

from .. import data
from ..charts import basic, curve, triangle
from ..charts.chartdata import data_view
from ..charts.timechart import over_time
from ..controls import actions
from ..controls.compared import metric, period_text
from ..controls.grid import count_column, percent_column
from ..filters import Filters
from ..panel import NOTHING, SELDOM, EmptyError, Look, beside, meaning, panel, some

HOURS = "gold/visitor_hours"
PEOPLE = (silver.PEOPLE,)
UNITS: dict[str, Every] = {"Day": "day", "Week": "week", "Month": "month"}
# The fewest and the most cohorts that the triangle shows, and its most later periods.
FEWEST = {"day": 7, "week": 8, "month": 6}
MOST = 31
AFTER = {"day": 14, "week": 12, "month": 12}
# Lines of single cohorts in the curve.
LINES = 6
# The fewest days that are shown by the day.
DAYS = 14
EXACT = 2**20
CURVES = ("Average", "By cohort")


def page(reader: Reader, filters: Filters) -> None:
    st.segmented_control(
        "Cohorts by",
        list(UNITS),
        key="period",
        default="Day",
        required=True,
        bind="query-params",
        help="Days, ISO weeks and months of UTC.",
    )
    summary_panel(reader, filters)
    cohorts_panel(reader, filters)
    beside(reader, filters, curve_panel, new_panel)


def _unit() -> Every:
    return UNITS.get(str(st.session_state.get("period")), "day")


def _counted(look: Look, by: Every) -> Retention:
    """Retention over all data of the site, since the first request of a visitor may lie before the range."""
    selection, extent = look.selection(), look.extent
    everything = Selection(selection.site, filters=selection.filters)
    tables = (REQUESTS,) if selection.filters else (HOURS,)
    newest = extent.newest.date() if extent.newest else None
    key = f"retention {by} {everything} {newest}"
    return data.remembered(
        look.reader, tables, key, lambda rows: retention.retention(rows, everything, by, extent)
    )


def _sql(look: Look) -> str:
    return walk_queries.retention(look.selection(), _unit(), look.reader.root)


def _shown(counted: Retention, selection: Selection, by: Every) -> list[int]:
    """The cohorts that begin in the range; of a short range, those before it, too."""
    inside = retention.within(counted, selection)
    upto = [
        i
        for i in range(len(counted.periods))
        if counted.sizes[i] > 0 and _begins_before(counted, i, selection)
    ]
    return upto[-min(max(len(inside), FEWEST[by]), MOST) :]


def _begins_before(counted: Retention, cohort: int, selection: Selection) -> bool:
    return (
        selection.end is None or counted.periods[cohort] <= (selection.end - timedelta(microseconds=1)).date()
    )


def came_again(counted: Retention, cohorts: Sequence[int], after: int) -> curve.Again | None:
    """Those visitors of these cohorts who came in the period `after` theirs, of periods that are over."""
    over = [c for c in cohorts if c + after < len(counted.periods) and not counted.is_open(c, after)]
    size = sum(float(counted.sizes[c]) for c in over)
    return curve.Again(sum(float(counted.matrix[c, after]) for c in over), size) if size else None


@panel("Summary", HOURS, every=SELDOM, requests=PEOPLE, query=_sql)
def summary_panel(look: Look) -> None:
    by, selection = _unit(), look.selection()
    counted, period = _counted(look, by), look.earlier(selection)
    daily = counted if by == "day" else _counted(look, "day")
    tiles: list[tuple[str, Callable[[Selection], float | None], Callable[[float | None], str], str]] = [
        (
            "New visitors, whole days",
            lambda s: _in_range(daily, s)[0],
            number,
            "Visitors whose first request lies in a day (UTC) that begins in the range.",
        ),
        (
            "Returning on a later day",
            lambda s: _in_range(daily, s)[1],
            number,
            "Summed over the days of the range: visitors of a day who had come on a day before.",
        ),
        (
            f"Came again after 1 {by}",
            lambda s: (
                again.share if (again := came_again(counted, retention.within(counted, s), 1)) else None
            ),
            percent,
            f"Of the cohorts in the range, in the {by} right after; only where it is over.",
        ),
    ]
    for cell, (label, of, text, help) in zip(st.columns(3), tiles, strict=True):
        with cell:
            change = Change(of(selection), None if period is None else of(period))
            metric(label, change, text(change.now), True, help)
    words = period_text(look, selection)
    if words:
        st.caption(words)
    if counted.share < 1:
        largest = float(counted.matrix.max())
        st.caption(
            f"A set of visitors exceeds {EXACT:,}, so counts are estimates: the standard error of"
            f" {largest:,.0f} is {counted.error(largest):,.0f} ({counted.error(largest) / largest:.2%}),"
            f" that of 1,000 is {counted.error(1000):,.0f}."
        )


def _in_range(daily: Retention, selection: Selection) -> tuple[int, int]:
    """New and returning visitors of the days that begin in the range."""
    table = daily.new_and_returning()
    kept = table.iloc[retention.within(daily, selection, empty=True)]
    return int(kept["new"].sum()), int(kept["returning"].sum())


@panel("Cohorts", HOURS, every=SELDOM, help=meaning("retention"), requests=PEOPLE, query=_sql)
def cohorts_panel(look: Look) -> None:
    by = _unit()
    counted = _counted(look, by)
    cohorts = _shown(counted, look.selection(), by)
    if not cohorts:
        raise EmptyError(NOTHING, look)
    triangle.triangle(counted, cohorts, [label(counted.periods[c], by) for c in cohorts], by, AFTER[by])


def label(start: date, by: Every) -> str:
    if by == "month":
        return f"{start:%B %Y}"
    return f"{start:%G-W%V}, from {start:%b} {start.day}" if by == "week" else f"{start:%a %Y-%m-%d}"


@panel("How many come again", HOURS, every=SELDOM, help=meaning("retention"), query=_sql)
def curve_panel(look: Look) -> None:
    by = _unit()
    counted = _counted(look, by)
    cohorts = _shown(counted, look.selection(), by)
    chosen = st.segmented_control(
        "Lines", CURVES, key="curve-lines", default=CURVES[0], required=True, label_visibility="collapsed"
    )
    if chosen == CURVES[1]:
        lines = {label(counted.periods[c], by): _line(counted, [c], AFTER[by]) for c in cohorts[-LINES:]}
    else:
        lines = {"All cohorts shown": _line(counted, cohorts, AFTER[by])}
    lines = {name: line for name, line in lines.items() if line}
    if not lines:
        raise EmptyError(f"No cohort has a later {by} that is over.", look)
    basic.draw(curve.lines(lines, f"{by.capitalize()}s after the first"), look.key, curve.words(lines, by))
    data_view(
        look,
        curve.table(lines),
        {
            "name": st.column_config.TextColumn("Cohort"),
            "after": count_column(f"{by.capitalize()}s after"),
            "share": percent_column("Came again"),
            "visitors": count_column("Visitors"),
            "of": count_column("Of"),
        },
    )
    fewest = min(again.of for line in lines.values() for again in line.values())
    st.caption(
        f"Only {by}s that are over. The smallest number of visitors behind a point is {number(fewest)}."
    )


def _line(counted: Retention, cohorts: Sequence[int], most: int) -> dict[int, curve.Again]:
    points = {after: came_again(counted, cohorts, after) for after in range(1, most + 1)}
    return {after: again for after, again in points.items() if again is not None}


@panel(
    "New and returning visitors per day",
    HOURS,
    every=SELDOM,
    help="Days of UTC. New: the first request over all data is of this day.",
    requests=PEOPLE,
)
def new_panel(look: Look) -> None:
    counted, selection = _counted(look, "day"), look.selection()
    inside = retention.within(counted, selection, empty=True)
    upto = [i for i in range(len(counted.periods)) if _begins_before(counted, i, selection)]
    days = some(counted.new_and_returning().iloc[upto[-max(len(inside), DAYS) :]], look=look)
    names = {"new": "New visitors", "returning": "Returning visitors"}
    table = days.assign(bin=pd.to_datetime(days["period"]))
    long = basic.longer(table, names)

    latest = table[["bin", *names]].iloc[::-1].reset_index(drop=True)

    def requests(start: datetime) -> actions.Requests:
        return actions.Requests(selection.shifted(start, start + timedelta(days=1)), PEOPLE)

    def picked(marks: list[dict[str, Any]]) -> None:
        actions.open_view(requests(datetime.fromtimestamp(int(marks[0]["at"]) / 1000, UTC)))

    def opens(row: int) -> list[tuple[str, actions.Requests]]:
        return [("Show requests", requests(latest["bin"][row].tz_localize("UTC").to_pydatetime()))]

    over_time(
        look,
        long,
        unit="Visitors per day",
        series=list(names.values()),
        zone="UTC",
        kind="bar",
        bin_seconds=86_400,
        picked=picked,
        data=latest,
        labels=names,
        opens=opens,
    )
