"""Alerts that a job raises from the access log into the home's tables (examples/intrusion does)."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from tidemark.figures.query import Where, query
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.rows import if_any
from tidemark.figures.selection import Selection
from tidemark.figures.text import shown

from .. import data
from ..controls.actions import Requests, requests_button
from ..controls.grid import grid, sheet, time_column
from ..filters import Filters
from ..panel import LIVE, EmptyError, Look, panel

# Tables with these columns; one that is not there raises nothing.
TABLES = ("intrusion/traffic_alerts", "intrusion/login_alerts")
COLUMNS = ("started_at", "rule", "client_ip")
ALERTS_SHOWN = 50


def show(reader: Reader, filters: Filters) -> None:
    """The panel, on homes that have such a job."""
    try:
        wanted = any(reader.version(table) is not None for table in TABLES)
    except ReadError:  # the panel says so
        wanted = True
    if wanted:
        alerts_panel(reader, filters)


@panel(
    "Latest alerts",
    *TABLES,
    every=LIVE,
    help="Of all sites. An alert that a late line shows to be none goes away again.",
)
def alerts_panel(look: Look) -> None:
    frames = [rows for table in TABLES if not (rows := _latest(look.reader, table)).empty]
    if not frames:
        raise EmptyError("No alert was raised.")
    latest = pd.concat(frames).sort_values("started_at", ascending=False).head(ALERTS_SHOWN)
    text = st.column_config.TextColumn
    table, columns = sheet(
        {
            "began": (look.wall(latest["started_at"]).to_numpy(), time_column("Began", look.filters.zone)),
            "rule": ([shown(rule) for rule in latest["rule"]], text("Rule")),
            "address": ([shown(address) for address in latest["client_ip"]], text("Address")),
        }
    )
    picked = grid(table, "alerts-latest", columns, rows=6, select=True)
    if picked is not None:
        address = Where("client_ip", "=", latest["client_ip"].iloc[picked])
        view = Requests(Selection(zone=look.filters.zone), (address,))
        requests_button(view, "alert-requests", "Show the requests of this address", icon=None)


def _latest(reader: Reader, table: str) -> pd.DataFrame:
    return if_any(
        data.rows_of(reader), query(table, list(COLUMNS), order_by=["-started_at"], limit=ALERTS_SHOWN)
    )
