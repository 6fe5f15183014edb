"""The page over tables that hold known alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from streamlit.testing.v1 import AppTest

from examples.intrusion.job import LOGIN_ALERTS, TRAFFIC_ALERTS
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore


def at(minute: int) -> datetime:
    return datetime(2026, 1, 1, 12, minute, tzinfo=UTC)


def write(home: Path) -> None:
    store = DeltaRsStore(lakehouse.of(Settings.of(home=home)))
    traffic = [
        {"rule": "scan", "client_ip": "203.0.113.1", "started_at": at(5), "value": 1234, "usual": 0.0},
        {"rule": "surge", "client_ip": "203.0.113.1", "started_at": at(10), "value": 200, "usual": 11.6},
    ]
    logins = [
        {
            "rule": "break-in",
            "client_ip": "198.51.100.1",
            "started_at": at(7),
            "matched_at": at(9),
            "logins": ["0/1"],
        }
    ]
    for table, rows in ((TRAFFIC_ALERTS, traffic), (LOGIN_ALERTS, logins)):
        store.ensure(table)
        rows = [{**row, "updated_at": at(20)} for row in rows]
        store.append_arrow(table, pa.Table.from_pylist(rows, table.arrow_schema))


def show(home: Path) -> AppTest:
    def script(home: str) -> None:
        from pathlib import Path

        from examples.intrusion.page import page

        page(Path(home))

    at = AppTest.from_function(script, default_timeout=60, kwargs={"home": str(home)}).run()
    assert not at.exception
    return at


def test_alerts_are_counted_and_listed(tmp_path: Path) -> None:
    write(tmp_path)
    page = show(tmp_path)
    assert {m.label: m.value for m in page.metric} == {
        "Break-in": "1",
        "Password guessing": "0",
        "Surge": "1",
        "Scan": "1",
    }
    listed, addresses = (frame.value for frame in page.dataframe)
    assert listed[["Rule", "Address", "What"]].values.tolist() == [
        ["surge", "203.0.113.1", "200 requests, usually 12"],
        ["break-in", "198.51.100.1", "until 12:09:00"],
        ["scan", "203.0.113.1", "1,234 paths not found"],
    ]
    assert addresses.values.tolist() == [["203.0.113.1", 2], ["198.51.100.1", 1]]


def test_one_rule_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path)
    page = show(tmp_path)
    page.selectbox[0].select("scan").run()
    assert not page.exception
    assert page.dataframe[0].value["Rule"].tolist() == ["scan"]


def test_before_the_first_alert_the_page_says_how_to_start_the_job(tmp_path: Path) -> None:
    assert "examples.intrusion --home" in show(tmp_path).info[0].value
