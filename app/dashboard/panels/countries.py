"""Countries: distinct visitors per country over the range."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from .. import charts, country, data, worldmap
from ..figures.query import total
from ..figures.reader import Reader
from ..filters import Filters
from ..grid import bar_column, count_column, grid
from ..panel import Look, nothing, panel
from ..text import number
from ..visitors import distinct

TABLE = "gold/visitors_by_country"
TOP = 7


def page(reader: Reader, filters: Filters) -> None:
    left, right = st.columns(2)
    with left:
        map_panel(reader, filters)
    with right:
        table_panel(reader, filters)
    time_panel(reader, filters)


def by_country(look: Look) -> pd.DataFrame:
    """Per country: distinct visitors (a union over the windows, not a sum), pageviews, requests, bots."""
    where = look.filters.where("window_start", look.span(look.window(TABLE)))
    visitors = distinct(look.reader, TABLE, where, by=["country"])
    sums = ("pageviews", "requests", "bot_requests")
    columns = {"country": "country"} | {c: total(c) for c in sums}
    counts = data.rows(look.reader, TABLE, columns, where, group_by=["country"])
    found = counts.merge(visitors, on="country", how="left").fillna({"visitors": 0})
    found["visitors"] = found["visitors"].astype(int)
    return found.sort_values(["visitors", "requests", "country"], ascending=[False, False, True])


@panel("Visitors by country", TABLE, help="Each visitor counts once over the whole range.")
def map_panel(look: Look) -> None:
    found = by_country(look)
    seen = found[found["visitors"] > 0]
    cells = st.columns(2)
    cells[0].metric("Visitors", number(seen["visitors"].sum()))
    cells[1].metric("Countries", number((seen["country"] != "ZZ").sum()))
    values = seen.rename(columns={"visitors": "value"})[["country", "value"]]
    charts.draw(worldmap.chart(values, "Visitors", dark=charts.is_dark()), look.key)


@panel("All countries", TABLE)
def table_panel(look: Look) -> None:
    found = by_country(look)
    if found.empty:
        return nothing()
    shown = pd.DataFrame(
        {
            "country": [country.name(c) for c in found["country"]],
            "code": found["country"],
            "visitors": found["visitors"],
            "pageviews": found["pageviews"],
            "requests": found["requests"],
            "bot_requests": found["bot_requests"],
        }
    )
    columns = {
        "country": st.column_config.TextColumn("Country"),
        "code": None,
        "visitors": bar_column("Visitors", shown["visitors"].max()),
        "pageviews": count_column("Pageviews"),
        "requests": count_column("Requests"),
        "bot_requests": count_column("By bots"),
    }
    grid(shown, "countries", columns, rows=11)
    return None


@panel("Visitors over time", TABLE)
def time_panel(look: Look) -> None:
    span = look.span(look.window(TABLE))
    where = look.filters.where("window_start", span)
    found = distinct(look.reader, TABLE, where, by=["country"], bin_seconds=span.bin_seconds)
    if found.empty:
        return nothing()
    found["country"] = [country.name(c) for c in found["country"]]
    kept, names = charts.top_series(found, "country", "visitors", TOP)
    wide = kept.pivot_table(index="bin", columns="series", values="visitors", aggfunc="sum", fill_value=0)
    start, end = look.start_of(span), look.end_of(span)
    full = charts.filled(wide.reset_index(), start, end, span.bin_seconds, names)
    long = charts.longer(full, {n: n for n in names})
    long["bin"] = look.wall(long["bin"])
    chart = charts.over_time(
        long,
        zone=look.filters.zone,
        unit="Visitors",
        series=names,
        kind="bar",
        bin_seconds=span.bin_seconds,
        height=300,
    )
    charts.draw(chart, look.key)
    return None
