"""Errors: how requests ended, which pages are missing or broken, and when it happens."""

from __future__ import annotations

import calendar

import pandas as pd
import streamlit as st

from tidemark.figures import errors
from tidemark.figures.query import Condition, Where
from tidemark.figures.reader import Reader
from tidemark.figures.selection import Filter
from tidemark.figures.silver import MOST_CHARACTERS
from tidemark.figures.text import clipped, number, percent, shown

from ..charts import chartdata, heat
from ..charts.timechart import Kept, timechart, timed
from ..controls import compared, moved
from ..controls.actions import Requests, is_filter
from ..controls.grid import TEXT_WIDTH, bar_column, count_column, grid_with_actions, sheet, texts, time_column
from ..filters import Filters
from ..panel import Look, meaning, panel, some

TRAFFIC = "gold/traffic"
ERRORS = "gold/errors"
CLASSES = {"status_2xx": "2xx", "status_3xx": "3xx", "status_4xx": "4xx", "status_5xx": "5xx"}
FAILED = (errors.FAILED,)
LISTED = 300
# Broken links are searched for the referrers of this many paths.
REFERRED = 100
PATH_SHOWN = 200
WEEKDAYS = list(calendar.day_abbr)


def page(reader: Reader, filters: Filters) -> None:
    summary_panel(reader, filters)
    statuses_panel(reader, filters)
    missing_panel(reader, filters)
    broken_panel(reader, filters)
    heat_panel(reader, filters)


def of_class(digit: str) -> Kept:
    return ((Filter("status", "starts with", (digit,)),), ())


def path_filter(path: str) -> Filter:
    """A filter by a path of a table that cuts paths."""
    long = len(path) >= MOST_CHARACTERS
    return Filter("path", "starts with", (path,)) if long else is_filter("path", path)


@panel("Summary", TRAFFIC, requests=FAILED, figure=errors.statuses)
def summary_panel(look: Look) -> None:
    selection = look.selection()
    compared.tiles(
        look,
        selection,
        lambda each: _failed(errors.statuses(look.rows, each)),
        SUMMARY,
        also=moved.offers(look, selection, EXPLAINED),
    )


SUMMARY: tuple[compared.Tile, ...] = (
    ("Requests", "requests", number, None, meaning("requests")),
    ("4xx", "4xx", number, False, "The client's errors: missing pages, refused logins."),
    ("5xx", "5xx", number, False, "The server's errors."),
    ("Failed", "failed", percent, False, "4xx and 5xx, of all requests."),
)
# The tiles' metrics of *What moved*.
EXPLAINED = {"requests": "requests", "4xx": "status_4xx", "5xx": "status_5xx"}


def _failed(rows: pd.DataFrame) -> dict[str, float | None]:
    client = rows["status"].between(400, 499)
    parts = (rows, rows[client], rows[rows["status"] >= 500])
    every, four, five = (int(part["requests"].sum()) for part in parts)
    return {"requests": every, "4xx": four, "5xx": five, "failed": (four + five) / every if every else None}


@panel("Statuses over time", TRAFFIC, requests=())
def statuses_panel(look: Look) -> None:
    counts = timed(look, errors.classes_over_time)
    metric = "status_5xx" if counts.rows["status_5xx"].any() else "status_4xx"
    moved.offer(look, counts.selection, metric)
    kept = {label: of_class(label[0]) for label in CLASSES.values()}
    timechart(look, counts, CLASSES, unit=counts.per_bin("Requests"), kind="bar", kept=kept)


@panel(
    "Missing pages (404)",
    ERRORS,
    help="Where the requests came from, own pages first: these are broken links that you can mend.",
    requests=(Where("status", "=", 404),),
    figure=errors.errors,
)
def missing_panel(look: Look) -> None:
    selection = look.selection()
    rows = some(
        errors.errors(look.rows, selection, (404, 404), LISTED), "No page was missing in this range.", look
    )
    # Without a condition on the path the query reads less, and few paths need none.
    paths = None if len(rows) <= REFERRED else list(rows["path"].head(REFERRED))
    came = errors.referrers(look.rows, selection, paths)
    first = came.groupby("path", sort=False).first()
    own = came[came["own"]].groupby("path")["requests"].sum()
    changes = compared.of_rows(look, rows, selection, errors.COUNTED)
    text = st.column_config.TextColumn
    table, settings = sheet(
        {
            "path": (texts(rows["path"], PATH_SHOWN), text("Path", width=TEXT_WIDTH)),
            "requests": (rows["requests"], bar_column("Requests", rows["requests"].max())),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "visitors": (rows["visitors"], count_column("Visitors")),
            "own": (
                [int(own.get(path, 0)) for path in rows["path"]],
                count_column("From own pages", "Requests that came from a page of the site."),
            ),
            "referrer": (
                [_referrer(first, path) for path in rows["path"]],
                text("Referrer", width="medium", help="An own page if there is one."),
            ),
            "newest": (look.wall(rows["newest_event_time"]), time_column("Last seen", look.filters.zone)),
        }
    )
    # Links on own pages can be mended, so such paths come first.
    order = table.assign(linked=table["own"] > 0).sort_values(
        ["linked", "requests"], ascending=False, kind="stable"
    )
    filters = [(path_filter(rows["path"][i]), is_filter("status", 404)) for i in order.index]
    grid_with_actions(order.drop(columns="linked"), "missing", settings, filters, selection, rows=8)


def _referrer(first: pd.DataFrame, path: str) -> str:
    return clipped(shown(first["referrer"][path]), PATH_SHOWN) if path in first.index else ""


@panel("Server errors (5xx)", ERRORS, requests=(Where("status", ">=", 500),), figure=errors.errors)
def broken_panel(look: Look) -> None:
    selection = look.selection()
    rows = some(
        errors.errors(look.rows, selection, (500, 599), LISTED),
        "No request failed at the server in this range.",
        look,
    )
    changes = compared.of_rows(look, rows, selection, errors.COUNTED)
    number_column = st.column_config.NumberColumn
    table, settings = sheet(
        {
            "path": (
                texts(rows["path"], PATH_SHOWN),
                st.column_config.TextColumn("Path", width=TEXT_WIDTH),
            ),
            "requests": (rows["requests"], bar_column("Requests", rows["requests"].max())),
            "status": (rows["status"], number_column("Status", format="%d", width="small")),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "visitors": (rows["visitors"], count_column("Visitors")),
            "newest": (look.wall(rows["newest_event_time"]), time_column("Last seen", look.filters.zone)),
        }
    )
    filters = [
        (path_filter(path), is_filter("status", status))
        for path, status in zip(rows["path"], rows["status"], strict=True)
    ]
    grid_with_actions(table, "broken", settings, filters, selection, rows=8)


# What the heat map counts: columns, and what they keep of the requests.
COUNTED: dict[str, tuple[tuple[str, ...], tuple[Condition, ...]]] = {
    "4xx and 5xx": (("status_4xx", "status_5xx"), FAILED),
    "5xx": (("status_5xx",), (Where("status", ">=", 500),)),
    "All requests": (("requests",), ()),
}


@panel("By hour and weekday", TRAFFIC, help="Counts of the whole range, in the chosen zone.", requests=())
def heat_panel(look: Look) -> None:
    selection = look.selection()
    cells = some(errors.by_hour_and_weekday(look.rows, selection), look=look)
    chosen = st.segmented_control(
        "Count",
        list(COUNTED),
        default="4xx and 5xx",
        required=True,
        key="heat-count",
        label_visibility="collapsed",
    )
    columns, _ = COUNTED[chosen or "4xx and 5xx"]
    cells["count"] = cells[list(columns)].sum(axis=1)
    cells["day"] = [WEEKDAYS[d] for d in cells["weekday"]]
    chart = heat.heat(
        cells,
        "hour",
        "day",
        "count",
        x_title=f"Hour ({look.filters.zone})",
        unit="Requests",
        rows=WEEKDAYS,
        columns=list(range(24)),
        height=330,
    )
    most = cells.iloc[int(cells["count"].argmax())]
    words = f"{chosen} by hour and weekday; most on {most['day']} at {most['hour']}:00: {most['count']:,}."
    listed = cells[cells["count"] > 0].sort_values("count", ascending=False, ignore_index=True)

    def opens(row: int) -> Requests:
        at = errors.at_hour(selection, look.extent, int(listed["weekday"][row]), int(listed["hour"][row]))
        return Requests(selection, (*COUNTED[chosen or "4xx and 5xx"][1], at))

    columns_shown = {
        "day": st.column_config.TextColumn("Weekday"),
        "hour": st.column_config.NumberColumn(f"Hour ({look.filters.zone})", format="%d"),
        "count": count_column("Requests"),
    }
    marks = [{"x": hour, "y": day} for hour, day in zip(listed["hour"].tolist(), listed["day"], strict=True)]
    chartdata.draw(look, chart, words, listed[["day", "hour", "count"]], columns_shown, marks, opens)
