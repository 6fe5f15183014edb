"""The page: a sensor's averages by each clock, side by side.

Run it beside the example: `python -m streamlit run examples/sensors/page.py -- --home DIR`. It reads the tables
only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pyarrow as pa
import streamlit as st

from examples.kit.page import home_of
from examples.kit.results import Results
from examples.sensors.averages import AVERAGES
from examples.sensors.generator import SENSORS
from examples.sensors.sequences import SEQUENCES
from tidemark.contract.table import Table
from tidemark.errors import TidemarkError
from tidemark.settings import load

REFRESH_SECONDS = 2.0
COLORS = {"rolling": "#999999", "event": "#0072b2", "ingestion": "#d55e00"}
WINDOWS_SHOWN = 60


def page(home: Path) -> None:
    """Draws the page for the example's home."""
    st.set_page_config("Sensors", layout="wide")
    st.title("Sensors", anchor=False)
    _live(home, st.selectbox("Sensor", list(SENSORS)))


@st.fragment(run_every=REFRESH_SECONDS)
def _live(home: Path, sensor: str) -> None:
    results = Results(load({"home": home}))
    windows = _rows(results, AVERAGES, sensor)
    if windows.empty:
        st.info(
            f"No reading came yet in {home}. Start the example: `python -m examples.sensors --home {home}`"
        )
        return
    rolling = windows[windows["kind"] == "rolling"].sort_values("window_start").iloc[-1]
    events = windows[windows["kind"] == "event"]
    left, middle, right = st.columns(3)
    left.metric("Last minute", f"{rolling['average']:.2f}")
    middle.metric("Readings", int(events["readings"].sum()))
    right.metric("Late, and counted all the same", int(events["late"].sum()))
    st.altair_chart(clocks(windows), width="stretch", key="clocks")
    moved = _rows(results, SEQUENCES, sensor)
    moved = moved[moved["kind"] == "moved"].sort_values("number", ascending=False)
    st.subheader("Where the value moved", anchor=False)
    st.dataframe(
        moved[["number", "readings", "average"]], hide_index=True, width="stretch", key="moved",
        column_config={
            "number": st.column_config.NumberColumn("Window", help="One ends whenever the value has moved."),
            "readings": st.column_config.NumberColumn("Readings"),
            "average": st.column_config.NumberColumn("Average", format="%.2f"),
        },
    )  # fmt: skip
    st.caption(f"As of {windows['updated_at'].max():%H:%M:%S} UTC by our clock; windows are by the plant's.")


def clocks(windows: pd.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """The average of each minute of event time and of ingestion time, as steps, and the rolling one, as a line.

    A hollow point is an early result.
    """
    shown = windows[windows["kind"].isin(COLORS)].sort_values("window_end").copy()
    shown = shown.groupby("kind").tail(WINDOWS_SHOWN)
    # The axis shows the plant's time as it is, in whatever time zone the browser may be.
    shown["window_end"] = shown["window_end"].dt.tz_localize(None)
    shown["state"] = shown["final"].map({True: "final", False: "early"}).fillna("no watermark")
    look: dict[str, Any] = {
        "title": None,
        "legend": alt.Legend(orient="top"),
        "scale": alt.Scale(domain=list(COLORS), range=list(COLORS.values())),
    }
    base = alt.Chart(shown).encode(
        x=alt.X("window_end:T", title=None, axis=alt.Axis(format="%H:%M:%S")),
        y=alt.Y("average:Q", title="Average", scale=alt.Scale(zero=False)),
        color=alt.Color("kind:N", **look),
    )
    points = base.mark_point(size=45).encode(
        fill=alt.Fill("kind:N", **look),
        fillOpacity=alt.condition("datum.state == 'early'", alt.value(0), alt.value(1)),
        tooltip=["kind:N", "average:Q", "readings:Q", "late:Q", "state:N"],
    )  # fmt: skip
    return alt.layer(base.mark_line(strokeWidth=1.5), points).properties(height=360)


def _rows(results: Results, table: Table, sensor: str) -> pd.DataFrame:
    try:
        rows: pa.Table = results.table(table)
    except TidemarkError:
        rows = table.arrow_schema.empty_table()
    frame: pd.DataFrame = rows.to_pandas()
    return frame.loc[frame["sensor"] == sensor]


if __name__ == "__main__":
    page(home_of(sys.argv[1:]))
