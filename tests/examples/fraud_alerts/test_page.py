"""The page, on real tables, without a browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from streamlit.testing.v1 import AppTest

from examples.fraud_alerts.charts import CONFIRMED_ALERTS, WINDOWS
from tidemark.contract.table import Table

PAGE = Path(__file__).resolve().parents[3] / "examples/fraud_alerts/page.py"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def write(home: Path, table: Table, rows: list[dict[str, object]]) -> None:
    path = home / "tables" / table.name.replace(".", "/")
    path.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(path), pa.Table.from_pylist(rows, schema=table.arrow_schema), mode="append")


def alert(transaction: str, rule: str, reason: str = "why") -> dict[str, object]:
    return {
        "transaction": transaction, "rule": rule, "customer": "ann", "reason": reason, "merchant": "shop",
        "country": "FR", "amount": 123_45, "time": NOON, "updated_at": NOON + timedelta(seconds=len(transaction)),
    }  # fmt: skip


def window(minute: int, country: str, payments: int, flagged: int) -> dict[str, object]:
    start = NOON + timedelta(minutes=minute)
    return {
        "merchant": "shop", "country": country, "window_start": start, "window_end": start + timedelta(minutes=10),
        "payments": payments, "amount": payments * 1000, "flagged": flagged,
        "flagged_share": flagged / payments, "updated_at": start,
    }  # fmt: skip


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    return AppTest.from_file(str(PAGE), default_timeout=60)


def test_an_empty_home_says_what_to_do(page: AppTest) -> None:
    page.run()
    assert not page.exception
    assert "python -m examples.fraud_alerts" in page.info[0].value


def test_alerts_and_windows_are_shown_and_new_ones_arrive(page: AppTest, tmp_path: Path) -> None:
    write(tmp_path, CONFIRMED_ALERTS, [alert("t1", "amount"), alert("t22", "location", "<b>far</b>")])
    write(tmp_path, WINDOWS, [window(0, "FR", 50, 5), window(0, "DE", 50, 0), window(1, "FR", 10, 1)])
    page.run()
    assert not page.exception
    assert [(metric.label, metric.value) for metric in page.metric] == [("amount", "1"), ("location", "1")]
    shown = page.dataframe[0].value
    assert list(shown["transaction"]) == ["t22", "t1"]
    assert list(shown["reason"]) == ["<b>far</b>", "why"]
    assert list(shown["amount"]) == [123.45, 123.45]
    by_country = page.dataframe[1].value.set_index("country")
    assert by_country["share flagged, %"].to_dict() == {"FR": 10.0, "DE": 0.0}

    write(tmp_path, CONFIRMED_ALERTS, [alert("t333", "amount")])
    page.run()
    assert list(page.dataframe[0].value["transaction"]) == ["t333", "t22", "t1"]
    assert page.metric[0].value == "2"


def test_a_country_can_be_chosen(page: AppTest, tmp_path: Path) -> None:
    write(tmp_path, CONFIRMED_ALERTS, [alert("t1", "amount")])
    write(tmp_path, WINDOWS, [window(0, "FR", 50, 5), window(0, "DE", 50, 0)])
    page.run()
    page.selectbox(key="country").select("DE").run()
    assert not page.exception
    assert list(page.dataframe[1].value["country"]) == ["DE"]
