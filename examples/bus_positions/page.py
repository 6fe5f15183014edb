"""The page: buses on their routes, drawn on a plane, and their expected arrivals.

Run it beside the example: `python -m streamlit run examples/bus_positions/page.py -- --home DIR`. It reads the tables
only, and needs no internet: no tiles, no fonts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import altair as alt
import pandas as pd
import pyarrow as pa
import streamlit as st

from examples.bus_positions.job import LATEST
from examples.bus_positions.routes import ROUTES
from examples.kit.page import home_of
from examples.kit.results import Results
from tidemark.errors import TidemarkError
from tidemark.settings import load

REFRESH_SECONDS = 2.0
COLORS = ("#0072b2", "#009e73", "#cc79a7")
SILENT = "#8a8a8a"


def page(home: Path) -> None:
    """Draws the page for the example's home."""
    st.set_page_config("Bus positions", layout="wide")
    st.title("Bus positions", anchor=False)
    route = st.selectbox("Route", ["All routes", *ROUTES])
    _live(home, None if route == "All routes" else route)


@st.fragment(run_every=REFRESH_SECONDS)
def _live(home: Path, route: str | None) -> None:
    try:
        rows = Results(load({"home": home})).table(LATEST)
    except TidemarkError:
        rows = LATEST.arrow_schema.empty_table()
    if rows.num_rows == 0:
        st.info(
            f"No bus was heard yet in {home}. Start one: `python -m examples.bus_positions --home {home}`"
        )
        return
    buses = frame(rows, route)
    moving = buses[~buses["silent"]]
    left, middle, right = st.columns(3)
    left.metric("Buses heard", len(moving))
    middle.metric("Silent", int(buses["silent"].sum()))
    speed = moving["km_h"].mean()
    right.metric("Mean speed", "–" if pd.isna(speed) else f"{speed:.0f} km/h")
    st.altair_chart(town(buses, route), width="stretch", key="town")
    st.dataframe(
        timetable(buses), hide_index=True, width="stretch", key="timetable",
        column_config={"Position at": st.column_config.DatetimeColumn(format="HH:mm:ss")},
    )  # fmt: skip
    newest = buses["tick"].max()
    st.caption(
        f"As of {newest:%H:%M:%S} UTC by the clock; times of positions and arrivals are the buses' own."
    )


def frame(rows: pa.Table, route: str | None) -> pd.DataFrame:
    """The buses of a route (None: of all), in order of route and name, with `km_h`."""
    buses: pd.DataFrame = rows.to_pandas().sort_values(["route", "bus"], ignore_index=True)
    buses["km_h"] = (buses["speed"] * 3.6).round(0)
    return buses if route is None else buses[buses["route"] == route].reset_index(drop=True)


def timetable(buses: pd.DataFrame) -> pd.DataFrame:
    """One row per bus: its state, and its next stops with expected times."""
    return pd.DataFrame(
        {
            "Bus": buses["bus"],
            "Route": buses["route"],
            "Position at": buses["event_time"].dt.tz_localize(None),
            "km/h": buses["km_h"],
            "State": list(map(_state, buses["silent"], buses["stops"])),
            "Coming stops": [
                ", ".join(
                    f"{stop} {pd.Timestamp(at, unit='ms'):%H:%M:%S}" for stop, at in zip(*both, strict=True)
                )
                for both in zip(buses["stops"], buses["arrivals"], strict=True)
            ],
        }
    )


def town(buses: pd.DataFrame, route: str | None) -> alt.LayerChart | alt.FacetChart:
    """The routes, their stops and the buses on them, to scale."""
    shown = [r for r in ROUTES.values() if route in (None, r.name)]
    corners = pd.DataFrame(
        [(r.name, n, *corner) for r in shown for n, corner in enumerate((*r.corners, r.corners[0]))],
        columns=["route", "order", "x", "y"],
    )
    stops = pd.DataFrame(
        [(r.name, stop.name, *r.point(stop.along)) for r in shown for stop in r.stops],
        columns=["route", "stop", "x", "y"],
    )
    # One scale for both directions.
    reach = 1.08 * max(abs(c) for r in ROUTES.values() for corner in r.corners for c in corner)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.6 * reach, 1.6 * reach], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-reach, reach], nice=False))
    color = alt.Color(
        "route:N",
        title=None,
        legend=alt.Legend(orient="top"),
        scale=alt.Scale(domain=list(ROUTES), range=list(COLORS)),
    )
    lines = (
        alt.Chart(corners)
        .mark_line(strokeWidth=3, opacity=0.45)
        .encode(x=x, y=y, color=color, order="order:O")
    )
    marks = (
        alt.Chart(stops).mark_point(size=30, filled=True, color="#555").encode(x=x, y=y, tooltip=["stop:N"])
    )
    points = buses[["bus", "route", "x", "y", "km_h", "silent"]]
    seen = (
        alt.Chart(points)
        .mark_circle(size=170, stroke="white", strokeWidth=1.5, opacity=1)
        .encode(
            x=x, y=y, color=alt.condition("datum.silent", alt.value(SILENT), color),
            tooltip=["bus:N", "route:N", alt.Tooltip("km_h:Q", title="km/h"), "silent:N"],
        )
    )  # fmt: skip
    return alt.layer(lines, marks, seen).properties(height=520)


def _state(silent: bool, stops: Sequence[str]) -> str:
    if silent:
        return "silent"
    return "under way" if len(stops) else "standing"


if __name__ == "__main__":
    page(home_of(sys.argv[1:]))
