"""Countries: where visitors are, and what they use."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from tidemark.figures import countries, silver
from tidemark.figures.reader import Reader
from tidemark.figures.selection import Selection
from tidemark.figures.text import number

from .. import colors, country
from ..charts import basic, chartdata, worldmap
from ..charts.timechart import MOST, stacked, timed
from ..controls import compared, moved
from ..controls.actions import Requests, filters_by, is_filter
from ..controls.grid import bar_column, count_column, grid_with_actions, sheet
from ..controls.toplist import toplist
from ..filters import Filters
from ..panel import Look, beside, panel, some

TABLE = "gold/visitors_by_country"
AUDIENCE = "gold/audience"
FIVE_MINUTES = 300
PEOPLE = (silver.PEOPLE,)


def page(reader: Reader, filters: Filters) -> None:
    beside(reader, filters, map_panel, table_panel)
    time_panel(reader, filters)
    beside(reader, filters, browser_panel, os_panel, device_panel)


@panel("Visitors by country", TABLE, help="Each visitor counts once over the whole range.", requests=PEOPLE)
def map_panel(look: Look) -> None:
    selection = look.selection(FIVE_MINUTES)
    rows = countries.countries(look.rows, selection)
    seen = rows[rows["visitors"] > 0]
    cells = st.columns(2)
    cells[0].metric("Visitors", number(seen["visitors"].sum()))
    cells[1].metric("Countries", number((seen["country"] != "ZZ").sum()))
    values = seen.rename(columns={"visitors": "value"})[["country", "value"]]
    draw_map(look, values, selection, "visitors by country")


def draw_map(look: Look, values: pd.DataFrame, selection: Selection, what: str) -> None:
    """A map of visitors, whose countries open their people's requests; `values` has `country` and `value`."""
    values = values.reset_index(drop=True)
    words = ", ".join(f"{country.name(c)} {n:,}" for c, n in values.head(10).itertuples(index=False))
    chart = worldmap.chart(values, "Visitors", dark=colors.is_dark())
    if values.empty:
        basic.draw(chart, look.key, f"Map of {what}: nobody.")
        return
    table = pd.DataFrame(
        {"country": [country.name(c) for c in values["country"]], "visitors": values["value"]}
    )
    columns = {"country": st.column_config.TextColumn("Country"), "visitors": count_column("Visitors")}
    chartdata.draw(
        look,
        chart,
        f"Map of {what}: {words}.",
        table,
        columns,
        [{"code": c} for c in values["country"]],
        lambda row: Requests(selection.having(is_filter("country", values["country"][row])), PEOPLE),
    )


@panel("All countries", TABLE, requests=(), figure=countries.countries)
def table_panel(look: Look) -> None:
    selection = look.selection(FIVE_MINUTES)
    rows = some(countries.countries(look.rows, selection), look=look)
    changes = compared.of_rows(look, rows, selection, countries.counted("country"))
    table, columns = sheet(
        {
            "country": ([country.name(c) for c in rows["country"]], st.column_config.TextColumn("Country")),
            "visitors": (rows["visitors"], bar_column("Visitors", rows["visitors"].max())),
            "change": (compared.ratios(changes), compared.column(look, selection)),
            "pageviews": (rows["pageviews"], count_column("Pageviews")),
            "requests": (rows["requests"], count_column("Requests", "Those of bots too.")),
        }
    )
    filters = filters_by(rows, "country")
    grid_with_actions(table, "countries", columns, filters, selection, rows=11)


@panel(
    "Visitors over time",
    TABLE,
    help=f"The {MOST} countries with most visitors, and all others.",
    requests=PEOPLE,
)
def time_panel(look: Look) -> None:
    counts = timed(look, countries.visitors, finest=FIVE_MINUTES)
    moved.offer(look, counts.selection, "visitors")
    stacked(look, counts, "country", "visitors", named=country.name, height=300)


def device_name(value: str) -> str:
    return value.capitalize() or "Unknown"


def audience(look: Look, field: str) -> None:
    """The visitors by a field of gold.audience."""
    rows = countries.audience(look.rows, look.selection(), field)
    rows = rows[rows["visitors"] > 0]
    toplist(
        look,
        rows,
        field,
        "visitors",
        named=device_name if field == "device" else lambda v: v or "Unknown",
        counted=countries.counted(field),
    )


@panel("Browsers", AUDIENCE, requests=PEOPLE, figure=partial(countries.audience, field="browser"))
def browser_panel(look: Look) -> None:
    audience(look, "browser")


@panel("Operating systems", AUDIENCE, requests=PEOPLE, figure=partial(countries.audience, field="os"))
def os_panel(look: Look) -> None:
    audience(look, "os")


@panel("Devices", AUDIENCE, requests=PEOPLE, figure=partial(countries.audience, field="device"))
def device_panel(look: Look) -> None:
    audience(look, "device")
