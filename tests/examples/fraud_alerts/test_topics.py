"""What makes a payment bad: one reason each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import MOST
from examples.fraud_alerts.topics import TRANSACTIONS
from examples.kit.events import validated
from examples.kit.load import as_json, iso
from tests.examples.kit.records import NOON, records

GOOD = {
    "id": "t1", "customer": "ann", "amount": 100, "currency": "EUR", "merchant": "shop", "country": "FR",
    "latitude": 48.9, "longitude": 2.4, "time": iso(NOON.timestamp()),
}  # fmt: skip
AHEAD = NOON + timedelta(milliseconds=LIMITS.lateness_ms)
CHANGES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"amount": 0}, ["amount_not_positive"]),
    ({"amount": MOST}, []),
    ({"amount": MOST + 1}, ["amount_too_large"]),
    ({"amount": 1.5}, ["wrong_type"]),
    ({"currency": "XXX"}, ["unknown_currency"]),
    ({"latitude": 91}, ["place_not_on_earth"]),
    ({"longitude": -181}, ["place_not_on_earth"]),
    ({"time": iso(AHEAD.timestamp())}, []),
    ({"time": iso(AHEAD.timestamp() + 0.001)}, ["time_ahead"]),
    *[({name: None}, [f"missing_{name}"]) for name in GOOD],
]


@pytest.fixture(scope="module")
def reasons(spark: SparkSession) -> list[list[str]]:
    values = [as_json({**GOOD, **change}) for change, _ in CHANGES]
    rows = validated(records(spark, TRANSACTIONS.topic, values), TRANSACTIONS).collect()
    return [list(row.reasons) for row in sorted(rows, key=lambda row: row.record.offset)]


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=[str(change) for change, _ in CHANGES])
def test_reasons(reasons: list[list[str]], number: int) -> None:
    assert reasons[number] == CHANGES[number][1]
