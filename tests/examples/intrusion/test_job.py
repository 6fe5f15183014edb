"""Lines validated by Spark, and alerts kept in the table as windows change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from examples.intrusion.job import ACTIVITY, TRAFFIC_ALERTS, per_window, update_alerts
from examples.intrusion.requests import validated
from examples.intrusion.rules import WINDOW_SECONDS, Limits
from examples.kit.mergeable import count
from tidemark.contract.store import Commit
from tidemark.contract.table import Change
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

GOOD = b'192.0.2.1 - - [01/Jan/2026:12:03:04 +0000] "GET /a?b=c HTTP/1.1" 404 512 "-" "Mozilla/5.0"'


def test_lines_are_parsed_and_bad_ones_have_a_reason(spark: SparkSession) -> None:
    lines = [
        GOOD,
        GOOD[:40],
        GOOD.replace(b"01/Jan", b"31/Feb"),
        GOOD.replace(b" 404 ", b" 4044 "),
        b"",
        b"\xff\xfe",
    ]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    records = spark.createDataFrame(
        [("access-log", 1, number, now, bytearray(line)) for number, line in enumerate(lines)],
        "topic string, partition int, offset long, timestamp timestamp, value binary",
    )
    rows = validated(records).orderBy("record.offset").collect()
    assert [row.reasons for row in rows] == [
        [], ["malformed"], ["invalid_time"], ["invalid_status"], ["malformed"], ["malformed"],
    ]  # fmt: skip
    result = rows[0]
    assert (result.client_ip, result.method, result.path, result.status) == ("192.0.2.1", "GET", "/a", 404)
    assert result.id == "00001/0000000000000000000"


def test_a_window_counts_requests_and_different_paths_not_found(spark: SparkSession) -> None:
    items = [("/x", 404), ("/x", 404), ("/y", 404), ("/z", 200)]
    time = datetime(2026, 1, 1, 12, 4, 59, tzinfo=UTC)
    rows = spark.createDataFrame(
        [("192.0.2.1", time, path, status) for path, status in items],
        "client_ip string, event_time timestamp, path string, status int",
    )
    (result,) = per_window(rows).toArrow().to_pylist()
    assert result["window_start"] == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert (result["requests"], result["not_found"], count(result["not_found_sketch"])) == (4, 2, 2)


@pytest.fixture
def store(tmp_path: Path) -> DeltaRsStore:
    delta_store = DeltaRsStore(lakehouse.of(Settings.of(home=tmp_path)))
    for table in (ACTIVITY, TRAFFIC_ALERTS):
        delta_store.ensure(table)
    return delta_store


def take(
    store: DeltaRsStore, number: int, requests: dict[int, int], address: str = "a"
) -> list[tuple[str, int, int, float]]:
    """The alerts after windows, by number, got so many requests in all: (rule, window, value, usual)."""
    rows = [
        {
            "client_ip": address,
            "window_start": datetime.fromtimestamp(window * WINDOW_SECONDS, UTC),
            "requests": wanted,
            "not_found": 0,
            "not_found_sketch": b"",
            "updated_at": datetime.now(UTC),
        }
        for window, wanted in requests.items()
    ]
    changed = pa.Table.from_pylist(rows, ACTIVITY.arrow_schema)
    store.upsert(ACTIVITY, Change(changed), Commit("test", number))
    update_alerts(store, changed, Limits(), Commit("test", number))
    return sorted(
        (row["rule"], int(row["started_at"].timestamp()) // WINDOW_SECONDS, row["value"], row["usual"])
        for row in store.read(TRAFFIC_ALERTS).to_pylist()
    )


def test_late_lines_revise_and_withdraw_a_surge(store: DeltaRsStore) -> None:
    assert take(store, 0, {0: 10, 1: 10, 2: 10}) == []
    assert take(store, 1, {3: 90}) == [("surge", 3, 90, 10.0)]
    assert take(store, 2, {1: 16}) == [("surge", 3, 90, 12.0)]
    assert take(store, 3, {0: 400}) == []


def test_another_address_keeps_its_alerts(store: DeltaRsStore) -> None:
    take(store, 0, {0: 10, 1: 10, 2: 10, 3: 90}, "b")
    assert take(store, 1, {0: 10, 1: 10, 2: 10, 3: 10}) == [("surge", 3, 90, 10.0)]


def test_a_repeated_batch_writes_nothing(store: DeltaRsStore) -> None:
    take(store, 0, {0: 10, 1: 10, 2: 10, 3: 90})
    version = store.version(TRAFFIC_ALERTS)
    take(store, 0, {0: 10, 1: 10, 2: 10, 3: 90})
    assert store.version(TRAFFIC_ALERTS) == version
