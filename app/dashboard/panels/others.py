"""Tables of other packages. The page uses only their properties and columns."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from tidemark.figures.bins import Bins, bins_of, every_bin, in_utc
from tidemark.figures.query import Columns, query, total
from tidemark.figures.reader import Contract, Reader, ReadError
from tidemark.figures.text import plain, shown

from .. import data
from ..charts import basic, timechart
from ..controls.grid import bar_column, count_column, grid, time_column
from ..filters import Filters
from ..panel import Look, nothing, panel, some

TOP_VALUES = 30
TOP_SITES = 7
NEWEST = 100


def page(reader: Reader, filters: Filters) -> None:
    try:
        _page(reader, filters)
    except ReadError as error:
        st.warning(plain(str(error)), icon=":material/error:")


def _page(reader: Reader, filters: Filters) -> None:
    packages = data.others(reader)
    if not packages:
        nothing("No installed package declares a table.")
        return
    names = {table.replace("/", "."): table for table in packages}
    chosen = st.selectbox("Table", list(names), key="other-table", bind="query-params", width=360)
    table = names[chosen]
    contract = data.contract(reader, table)
    st.caption(plain(f"{contract.properties.get('about', '')} Declared by the package {packages[table]}."))
    counts = contract.names("counts")
    if counts and contract.properties.get("time"):
        count = st.segmented_control("Count", counts, key="other-count", default=counts[0], required=True)
        _time_panel(table, contract, count)(reader, filters)
        for column in _dimensions(contract):
            _top_panel(table, contract, column, counts)(reader, filters)
    _newest_panel(table, contract)(reader, filters)


def _dimensions(contract: Contract) -> list[str]:
    """The key columns other than site and time."""
    return [name for name in contract.names("key") if name not in ("site", contract.properties["time"])]


def _help(contract: Contract, *columns: str) -> str:
    return " ".join(plain(f"{name}: {contract.columns.get(name, '')}") for name in columns)


def _time_panel(table: str, contract: Contract, count: str) -> Callable[[Reader, Filters], None]:
    time = contract.properties["time"]

    def over_time(look: Look) -> None:
        span = look.span(look.window(table))
        bins = bins_of(look.rows, look.filters.selection(span), span.bin_seconds)
        if not bins.consist_of(look.window(table)):
            bins = Bins(span.bin_seconds)
        columns: Columns = {"bin": bins.of(time), "site": "site", count: total(count)}
        where = look.filters.where(time, span)
        counts = some(look.rows(query(table, columns, where, group_by=["bin", "site"])), look=look)
        counts = in_utc(counts, bins).assign(site=[shown(site) for site in counts["site"]])
        kept, names = basic.top_series(counts, "site", count, TOP_SITES)
        wide = kept.pivot_table(index="bin", columns="series", values=count, aggfunc="sum", fill_value=0)
        start, end = look.start_of(span), look.end_of(span)
        full = every_bin(wide.reset_index(), start, end, span.bin_seconds, names, zone=bins.zone)
        long = basic.longer(full, {name: name for name in names})
        long["bin"] = look.wall(long["bin"])
        timechart.over_time(
            look, long, unit=count, series=names, kind="bar", bin_seconds=span.bin_seconds, part=f"-{table}"
        )

    title = f"{count[:1].upper()}{count[1:]}"
    return panel(f"{plain(title)} over time, by site", table, help=_help(contract, count))(over_time)


def _top_panel(
    table: str, contract: Contract, column: str, counts: list[str]
) -> Callable[[Reader, Filters], None]:
    time = contract.properties["time"]

    def top_values(look: Look) -> None:
        where = look.filters.where(time, look.span(look.window(table)))
        columns = {column: column} | {name: total(name) for name in counts}
        order = [f"-{counts[0]}", column]
        values = some(
            look.rows(query(table, columns, where, group_by=[column], order_by=order, limit=TOP_VALUES)),
            look=look,
        )
        values[column] = [shown(value) for value in values[column]]
        named = {column: st.column_config.TextColumn(column)} | {name: count_column(name) for name in counts}
        named[counts[0]] = bar_column(counts[0], values[counts[0]].max())
        grid(values, f"top-{table}-{column}", named, rows=10)

    top_values.__name__ = top_values.__qualname__ = f"top_{column}"
    return panel(f"Top values of {plain(column)}", table, help=_help(contract, column, *counts))(top_values)


def _newest_panel(table: str, contract: Contract) -> Callable[[Reader, Filters], None]:
    time = contract.properties.get("time") or contract.properties.get("clock", "")
    # Sketches and other bytes are not shown.
    columns = [name for name in contract.columns if not name.endswith("_sketch")]

    def newest_rows(look: Look) -> None:
        sites = look.filters.sites() if "site" in columns else ()
        order = [f"-{time}"] if time else []
        rows = some(look.rows(query(table, columns, sites, order_by=order, limit=NEWEST)), look=look)
        named: dict[str, object] = {name: count_column(name) for name in contract.names("counts")}
        for name in columns:
            if isinstance(rows[name].dtype, pd.DatetimeTZDtype):
                rows[name] = look.wall(rows[name])
                named[name] = time_column(name, look.filters.zone)
            elif rows[name].dtype == object:
                rows[name] = [shown(value) for value in rows[name]]
        grid(rows, f"newest-{table}", named, rows=12)

    return panel("Newest rows", table, help=_help(contract, *columns))(newest_rows)
