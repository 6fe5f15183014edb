"""Networks: what kind of network requests come from, whose, and from which cities."""

from __future__ import annotations

import streamlit as st

from tidemark.figures import networks, silver
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader
from tidemark.figures.text import clipped, shown

from .. import country
from ..charts.timechart import stacked, timed
from ..controls import compared
from ..controls.actions import is_filter
from ..controls.grid import bar_column, count_column, grid_with_actions
from ..filters import HOUR, Filters
from ..kinds import kind_name
from ..panel import Look, meaning, panel, some

TABLE = "gold/networks"
LISTED = 500
NAME_SHOWN = 120
CITIES = (silver.PEOPLE, Where("city", "is not null"))


def page(reader: Reader, filters: Filters) -> None:
    time_panel(reader, filters)
    left, right = st.columns(2)
    with left:
        table_panel(reader, filters)
    with right:
        cities_panel(reader, filters)


@panel("Requests by kind of network", TABLE, requests=(Where("network", "is not null"),))
def time_panel(look: Look) -> None:
    message = "No request from a network of the lists in this range."
    counts = timed(look, networks.over_time, message, finest=HOUR, hours=True)
    stacked(look, counts, "network", "requests", named=kind_name)


@panel(
    "Networks and organisations",
    TABLE,
    help="Organisations are known with a database of your own: the setting asn_database, or tidemark data update.",
    requests=(),
    figure=networks.networks,
)
def table_panel(look: Look) -> None:
    selection = look.selection(HOUR)
    rows = some(networks.networks(look.rows, selection, LISTED), look=look)
    table = rows.assign(
        network=[kind_name(name) or "Other" for name in rows["network"]],
        as_org=[clipped(shown(name), NAME_SHOWN) for name in rows["as_org"]],
        change=compared.ratios(compared.of_rows(look, rows, selection, networks.COUNTED)),
    )[["network", "as_org", "requests", "change", "visitors", "pageviews"]]
    text = st.column_config.TextColumn
    columns = {
        "network": text("Network", help=meaning("network")),
        "as_org": text("Organisation"),
        "requests": bar_column("Requests", table["requests"].max()),
        "change": compared.column(look, selection),
        "visitors": count_column("Visitors"),
        "pageviews": count_column("Pageviews"),
    }
    filters = [
        (is_filter("network", network), is_filter("as_org", organisation))
        for network, organisation in zip(rows["network"], rows["as_org"], strict=True)
    ]
    grid_with_actions(table, "networks", columns, filters, selection, rows=12)


@panel(
    "Cities",
    silver.REQUESTS,
    help="Of people. Cities are known with a database of your own: the setting city_database, or tidemark data update.",
    requests=CITIES,
    figure=networks.cities,
)
def cities_panel(look: Look) -> None:
    selection = look.selection()
    rows = some(
        networks.cities(look.rows, selection, LISTED),
        "No city is known. A database of cities makes them known: the setting city_database.",
    )
    table = rows.assign(
        city=[clipped(shown(name), NAME_SHOWN) for name in rows["city"]],
        region=[clipped(shown(name), NAME_SHOWN) for name in rows["region"]],
        country=[country.name(code) for code in rows["country"]],
    )[["city", "region", "country", "visitors", "requests"]]
    text = st.column_config.TextColumn
    columns = {
        "city": text("City"),
        "region": text("Region"),
        "country": text("Country"),
        "visitors": bar_column("Visitors", table["visitors"].max()),
        "requests": count_column("Requests"),
    }
    filters = [
        (is_filter("city", city), is_filter("country", code))
        for city, code in zip(rows["city"], rows["country"], strict=True)
    ]
    grid_with_actions(table, "cities", columns, filters, selection, rows=12, where=(silver.PEOPLE,))
