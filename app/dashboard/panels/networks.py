"""Networks: what kind of network requests come from, whose, and from which cities."""

from __future__ import annotations

import streamlit as st

from tidemark.figures import networks, silver
from tidemark.figures.query import Where
from tidemark.figures.reader import Reader

from .. import country
from ..charts.timechart import stacked, timed
from ..controls import compared
from ..controls.actions import filters_by
from ..controls.grid import bar_column, count_column, grid_with_actions, sheet, texts
from ..filters import HOUR, Filters
from ..kinds import kind_name
from ..panel import Look, beside, meaning, panel, some

TABLE = "gold/networks"
LISTED = 500
NAME_SHOWN = 120
CITIES = (silver.PEOPLE, Where("city", "is not null"))


def page(reader: Reader, filters: Filters) -> None:
    time_panel(reader, filters)
    beside(reader, filters, table_panel, cities_panel)


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
    changes = compared.of_rows(look, rows, selection, networks.COUNTED)
    text = st.column_config.TextColumn
    table, columns = sheet(
        {
            "network": (
                [kind_name(name) or "Other" for name in rows["network"]],
                text("Network", help=meaning("network")),
            ),
            "as_org": (texts(rows["as_org"], NAME_SHOWN), text("Organisation")),
            "requests": (rows["requests"], bar_column("Requests", rows["requests"].max())),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "visitors": (rows["visitors"], count_column("Visitors")),
            "pageviews": (rows["pageviews"], count_column("Pageviews")),
        }
    )
    filters = filters_by(rows, "network", "as_org")
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
    text = st.column_config.TextColumn
    table, columns = sheet(
        {
            "city": (texts(rows["city"], NAME_SHOWN), text("City")),
            "region": (texts(rows["region"], NAME_SHOWN), text("Region")),
            "country": ([country.name(code) for code in rows["country"]], text("Country")),
            "visitors": (rows["visitors"], bar_column("Visitors", rows["visitors"].max())),
            "requests": (rows["requests"], count_column("Requests")),
        }
    )
    filters = filters_by(rows, "city", "country")
    grid_with_actions(table, "cities", columns, filters, selection, rows=12, where=(silver.PEOPLE,))
