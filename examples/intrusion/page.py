"""The page: alerts as they are raised, withdrawn ones gone, and who causes most.

Run it beside the example: `python -m streamlit run examples/intrusion/page.py -- --home DIR`. It reads the
tables only.
"""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt
import pandas as pd
import streamlit as st

from examples.intrusion.job import LOGIN_ALERTS, TRAFFIC_ALERTS
from examples.kit.page import home_of
from examples.kit.results import Results
from tidemark.errors import TidemarkError
from tidemark.settings import load

REFRESH_SECONDS = 2.0
# By rule, from the most to the least urgent.
COLORS = {"break-in": "#b2182b", "password guessing": "#ef8a62", "surge": "#2166ac", "scan": "#67a9cf"}


def page(home: Path) -> None:
    """Draws the page for the home on which the job runs."""
    st.set_page_config("Intrusion", layout="wide")
    st.title("Intrusion", anchor=False)
    rule = st.selectbox("Rule", ["All rules", *COLORS])
    _live(home, None if rule == "All rules" else rule)


@st.fragment(run_every=REFRESH_SECONDS)
def _live(home: Path, rule: str | None) -> None:
    try:
        every = alerts(Results(load({"home": home})))
    except TidemarkError:
        every = pd.DataFrame()
    if every.empty:
        st.info(f"No alert yet in {home}. Start the job: `python -m examples.intrusion --home {home}`")
        return
    for column, name in zip(st.columns(len(COLORS)), COLORS, strict=True):
        column.metric(name.capitalize(), int((every["Rule"] == name).sum()))
    shown = every if rule is None else every[every["Rule"] == rule]
    st.altair_chart(over_time(shown), width="stretch", key="over-time")
    left, right = st.columns((3, 2))
    left.dataframe(shown, hide_index=True, width="stretch", key="alerts")
    worst = shown.groupby("Address").size().sort_values(ascending=False).head(10)
    right.dataframe(worst.rename("Alerts").reset_index(), hide_index=True, width="stretch", key="addresses")
    st.caption("Times are those of the log, in UTC.")


def alerts(results: Results) -> pd.DataFrame:
    """The alerts that stand, the newest first: Began, Rule, Address, What."""
    traffic = results.table(TRAFFIC_ALERTS).to_pylist()
    logins = results.table(LOGIN_ALERTS).to_pylist()
    rows = [
        *((row["started_at"], row["rule"], row["client_ip"], _traffic(row)) for row in traffic),
        *(
            (row["started_at"], row["rule"], row["client_ip"], f"until {row['matched_at']:%H:%M:%S}")
            for row in logins
        ),
    ]
    table = pd.DataFrame(sorted(rows, reverse=True), columns=["Began", "Rule", "Address", "What"])
    if len(table):
        table["Began"] = table["Began"].dt.tz_localize(None)
    return table


def over_time(shown: pd.DataFrame) -> alt.Chart:
    """Alerts per five minutes, by rule."""
    counted = shown.assign(when=shown["Began"].dt.floor("5min")).groupby(["when", "Rule"], as_index=False)
    color = alt.Color(
        "Rule:N", title=None, legend=alt.Legend(orient="top"),
        scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())),
    )  # fmt: skip
    bars: alt.Chart = (
        alt.Chart(counted.size())
        .mark_bar()
        .encode(
            x=alt.X("yearmonthdatehoursminutes(when):O", title="Time of the log (UTC)"),
            y=alt.Y("size:Q", title="Alerts", axis=alt.Axis(tickMinStep=1)),
            color=color,
        )
        .properties(height=220)
    )
    return bars


def _traffic(row: dict[str, object]) -> str:
    if row["rule"] == "scan":
        return f"{row['value']:,} paths not found"
    return f"{row['value']:,} requests, usually {row['usual']:.0f}"


if __name__ == "__main__":
    page(home_of(sys.argv[1:]))
