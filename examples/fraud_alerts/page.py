"""A small page of its own: alerts as they arrive, and payments and flags by merchant and country.

Run it beside the example: `python -m streamlit run examples/fraud_alerts/page.py -- --home DIR`.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import pandas as pd
import streamlit as st
from deltalake import DeltaTable

from examples.kit.page import home_of

HOME = home_of(sys.argv[1:])
ALERTS, WINDOWS = "fraud_alerts/alerts", "fraud_alerts/windows"
SHOWN = 200


def table(name: str, columns: list[str]) -> pd.DataFrame:
    """Columns of a Delta table of the home; without rows if there is no such table yet."""
    path = HOME / "tables" / name
    if not DeltaTable.is_deltatable(str(path)):
        return pd.DataFrame(columns=columns)
    rows: pd.DataFrame = DeltaTable(str(path)).to_pyarrow_table(columns=columns).to_pandas()
    return rows


@st.fragment(run_every=timedelta(seconds=1))
def alerts() -> None:
    """The newest confirmed alerts, and how many there are by rule."""
    columns = [
        "updated_at",
        "time",
        "rule",
        "transaction",
        "customer",
        "reason",
        "merchant",
        "country",
        "amount",
    ]
    rows = table(ALERTS, columns)
    if rows.empty:
        st.info(
            "No alert yet. Start `python -m examples.fraud_alerts --home DIR` and give this page the same DIR."
        )
        return
    counts = rows["rule"].value_counts().sort_index()
    for place, (rule, count) in zip(st.columns(len(counts)), counts.items(), strict=True):
        place.metric(str(rule), f"{count:,}")
    newest = rows.sort_values(["updated_at", "transaction"], ascending=False).head(SHOWN)
    newest["amount"] /= 100
    st.dataframe(
        newest, hide_index=True, key="alerts",
        column_config={
            "updated_at": st.column_config.DatetimeColumn("confirmed (UTC)", format="YYYY-MM-DD HH:mm:ss.SSS"),
            "time": st.column_config.DatetimeColumn("event time (UTC)", format="HH:mm:ss.SSS"),
            "amount": st.column_config.NumberColumn("amount, EUR", format="%.2f"),
        },
    )  # fmt: skip
    st.caption(f"{len(rows):,} confirmed alerts, the last at {rows['updated_at'].max():%H:%M:%S} UTC")


@st.fragment(run_every=timedelta(seconds=2))
def windows() -> None:
    """The newest full 10-minute window by merchant and country, and the share flagged over time."""
    columns = ["merchant", "country", "window_start", "window_end", "payments", "amount", "flagged"]
    rows = table(WINDOWS, columns)
    if rows.empty:
        st.info("No window yet.")
        return
    country = st.selectbox("Country", ["all", *sorted(rows["country"].unique())], key="country")
    if country != "all":
        rows = rows[rows["country"] == country]
    totals = rows.groupby("window_start")[["payments", "amount", "flagged"]].sum()
    totals["share flagged, %"] = 100 * totals["flagged"] / totals["payments"].where(totals["payments"] > 0)
    recent = totals.tail(60)
    st.line_chart(recent[["share flagged, %"]], height=200)
    st.line_chart(recent[["payments"]], height=200)
    start = totals["payments"].tail(20).idxmax()
    shown = rows[rows["window_start"] == start].groupby(["merchant", "country"], as_index=False)[
        ["payments", "amount", "flagged"]
    ].sum()  # fmt: skip
    shown["amount"] /= 100
    shown["share flagged, %"] = (
        100 * shown["flagged"] / shown["payments"].where(shown["payments"] > 0)
    ).round(2)
    st.caption(f"Ten minutes from {start:%Y-%m-%d %H:%M} UTC (event time), the fullest of the newest windows")
    st.dataframe(
        shown.sort_values("flagged", ascending=False), hide_index=True, key="windows",
        column_config={"amount": st.column_config.NumberColumn("amount, EUR", format="%.2f")},
    )  # fmt: skip


st.set_page_config(page_title="Fraud alerts", layout="wide")
st.title("Fraud alerts")
left, right = st.columns([3, 2])
with left:
    st.subheader("Confirmed alerts")
    alerts()
with right:
    st.subheader("Merchants and countries, 10 minutes sliding by 1")
    windows()
