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
from ..controls.grid import grid, time_column
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
    picked = grid(alerts_table(latest, look), "alerts-latest", alerts_columns(look), rows=6, select=True)
    if picked is not None:
        address = Where("client_ip", "=", latest["client_ip"].iloc[picked])
        view = Requests(Selection(zone=look.filters.zone), (address,))
        requests_button(view, "alert-requests", "Show the requests of this address", icon=None)


def alerts_table(rows: pd.DataFrame, look: Look) -> pd.DataFrame:
    """Alerts as shown: what began when, by whom."""
    return pd.DataFrame(
        {
            "began": look.wall(rows["started_at"]).to_numpy(),
            "rule": [shown(rule) for rule in rows["rule"]],
            "address": [shown(address) for address in rows["client_ip"]],
        }
    )


def alerts_columns(look: Look) -> dict[str, object]:
    return {
        "began": time_column("Began", look.filters.zone),
        "rule": st.column_config.TextColumn("Rule"),
        "address": st.column_config.TextColumn("Address"),
    }


def _latest(reader: Reader, table: str) -> pd.DataFrame:
    return if_any(
        data.rows_of(reader), query(table, list(COLUMNS), order_by=["-started_at"], limit=ALERTS_SHOWN)
    )
