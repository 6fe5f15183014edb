"""The page over tables that hold known averages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from streamlit.testing.v1 import AppTest

from examples.sensors.averages import AVERAGES
from examples.sensors.sequences import SEQUENCES
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def window(kind: str, minute: int, average: float, **more: object) -> dict[str, object]:
    start = NOON + timedelta(minutes=minute)
    return {
        "kind": kind, "window_start": start, "window_end": start + timedelta(minutes=1), "sensor": "oil", "readings": 2,
        "total": 2 * average, "average": average, "late": 0, "updated_at": NOON, **more,
    }  # fmt: skip


def show(home: Path) -> AppTest:
    def script(home: str) -> None:
        from pathlib import Path

        from examples.sensors.page import page

        page(Path(home))

    at = AppTest.from_function(script, default_timeout=60, kwargs={"home": str(home)}).run()
    assert not at.exception
    return at


def test_a_sensor_can_be_chosen_and_shows_its_averages(tmp_path: Path) -> None:
    store = DeltaRsStore(lakehouse.of(Settings.of(home=tmp_path)))
    store.ensure(AVERAGES)
    store.ensure(SEQUENCES)
    rows = [
        window("event", 0, 60.0, final=True, late=1),
        window("event", 1, 61.0, final=False),
        window("ingestion", 0, 60.5),
        window("rolling", 0, 60.0, final=True),
        window("rolling", 1, 61.25, final=False),
        window("event", 0, 99.0, final=True, sensor="tank"),
    ]
    store.append_arrow(AVERAGES, pa.Table.from_pylist(rows, AVERAGES.arrow_schema))
    moved = [
        {"kind": kind, "sensor": "oil", "number": number, "readings": 5, "average": 60.0, "updated_at": NOON}
        for kind, number in (("moved", 1), ("moved", 2), ("last_100", 10))
    ]
    store.append_arrow(SEQUENCES, pa.Table.from_pylist(moved, SEQUENCES.arrow_schema))

    at = show(tmp_path)
    at.selectbox[0].select("oil").run()
    assert not at.exception
    assert [m.value for m in at.metric] == ["61.25", "4", "1"]
    assert at.dataframe[0].value["number"].tolist() == [2, 1]


def test_before_the_first_reading_the_page_says_how_to_start(tmp_path: Path) -> None:
    assert "examples.sensors --home" in show(tmp_path).info[0].value
