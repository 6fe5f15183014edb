"""The page over tables that hold known buses."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from streamlit.testing.v1 import AppTest

from examples.bus_positions.job import LATEST
from examples.bus_positions.routes import ROUTES
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write(home: Path, *buses: dict[str, object]) -> None:
    store = DeltaRsStore(lakehouse.of(Settings.of(home=home)))
    store.ensure(LATEST)
    rows = [
        {"tick": NOON, "event_time": NOON, "x": 0.0, "y": 0.0, "along": 0.0, "heard_at": NOON, "silent": False,
         "updated_at": NOON, "stops": [], "arrivals": [], **bus}
        for bus in buses
    ]  # fmt: skip
    store.append_arrow(LATEST, pa.Table.from_pylist(rows, LATEST.arrow_schema))


def show(home: Path) -> AppTest:
    def script(home: str) -> None:
        from pathlib import Path

        from examples.bus_positions.page import page

        page(Path(home))

    at = AppTest.from_function(script, default_timeout=60, kwargs={"home": str(home)}).run()
    assert not at.exception
    return at


def test_buses_are_counted_and_listed_with_their_stops(tmp_path: Path) -> None:
    arrival = int(NOON.timestamp() * 1000) + 90_000
    write(
        tmp_path,
        {"bus": "bus1", "route": "Hill", "speed": 10.0, "stops": ["Hill 2"], "arrivals": [arrival]},
        {"bus": "bus2", "route": "Ring", "speed": 0.0},
        {"bus": "bus3", "route": "Harbour", "speed": 5.0, "silent": True},
    )
    at = show(tmp_path)
    assert {m.label: m.value for m in at.metric} == {
        "Buses heard": "2",
        "Silent": "1",
        "Mean speed": "18 km/h",
    }
    rows = at.dataframe[0].value[["Bus", "Route", "km/h", "State", "Coming stops"]].values.tolist()
    assert rows == [
        ["bus3", "Harbour", 18, "silent", ""],
        ["bus1", "Hill", 36, "under way", "Hill 2 12:01:30"],
        ["bus2", "Ring", 0, "standing", ""],
    ]


def test_one_route_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, *({"bus": f"on {name}", "route": name, "speed": 8.0} for name in ROUTES))
    at = show(tmp_path)
    at.selectbox[0].select("Ring").run()
    assert not at.exception
    assert at.dataframe[0].value["Bus"].tolist() == ["on Ring"]


def test_before_the_first_bus_the_page_says_how_to_start_one(tmp_path: Path) -> None:
    assert "examples.bus_positions --home" in show(tmp_path).info[0].value
