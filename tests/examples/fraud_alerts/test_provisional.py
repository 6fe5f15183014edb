"""The fast path's expressions on plain rows, against the exact rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.fraud_alerts.customer import Customer
from examples.fraud_alerts.money import RATES, euro_cents
from examples.fraud_alerts.provisional import PROFILE, alerts, profile
from examples.fraud_alerts.rules import location
from examples.fraud_alerts.topics import ALERTS

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
PARIS, LYON = (48.857, 2.352), (45.764, 4.836)
PAID = (
    "id string, customer string, amount long, currency string, merchant string, country string,"
    " latitude double, longitude double, time timestamp, record struct<timestamp: timestamp>"
)


@pytest.fixture(scope="module")
def known(spark: SparkSession) -> DataFrame:
    """Ann has paid up to 10.00 EUR and was last in Paris; Bob's phone was never seen."""
    customers = {
        "ann": Customer(count=5, highest=1000, reports=[(1, *LYON), (2, *PARIS)]),
        "bob": Customer(count=1, highest=50),
    }
    return spark.createDataFrame(profile(customers))


def fired(spark: SparkSession, known: DataFrame, *payments: tuple[object, ...]) -> set[tuple[str, str]]:
    """(transaction, rule) for payments given as (id, customer, amount, currency, place)."""
    rows = [
        (id, customer, amount, currency, "shop", "FR", *place, NOW, (NOW,))
        for id, customer, amount, currency, place in payments
    ]
    result = alerts(spark.createDataFrame(rows, PAID), known).collect()
    assert {row.topic for row in result} <= {ALERTS}
    alerts_sent = [json.loads(row.value) for row in result]
    assert {alert["status"] for alert in alerts_sent} <= {"provisional"}
    assert [bytes(row.key).decode() for row in result] == [alert["transaction"] for alert in alerts_sent]
    assert all(alert["decided_at"] > 1_700_000_000_000 for alert in alerts_sent)
    return {(alert["transaction"], alert["rule"]) for alert in alerts_sent}


def test_amounts_and_places_are_compared_with_the_profile(spark: SparkSession, known: DataFrame) -> None:
    assert fired(
        spark, known,
        ("same", "ann", 1000, "EUR", PARIS), ("more", "ann", 1001, "EUR", PARIS),
        ("far", "ann", 1, "EUR", LYON), ("both", "ann", 5000, "EUR", LYON),
    ) == {("more", "amount"), ("far", "location"), ("both", "amount"), ("both", "location")}  # fmt: skip


def test_whoever_the_profile_knows_little_of_is_not_missed(spark: SparkSession, known: DataFrame) -> None:
    payments = [
        ("few", "bob", 51, "EUR", LYON),
        ("none", "new", 1, "EUR", LYON),
        ("low", "bob", 50, "EUR", LYON),
    ]
    assert fired(spark, known, *payments) == {("few", "amount"), ("none", "amount")}


@pytest.mark.parametrize("currency", RATES)
def test_spark_and_python_agree_on_the_cent(spark: SparkSession, known: DataFrame, currency: str) -> None:
    at_most = max(amount for amount in range(1, 200_000) if euro_cents(amount, currency) <= 1000)
    payments = [("at", "ann", at_most, currency, PARIS), ("above", "ann", at_most + 1, currency, PARIS)]
    assert fired(spark, known, *payments) == {("above", "amount")}


def test_spark_and_python_agree_on_distances(spark: SparkSession, known: DataFrame) -> None:
    places = [(PARIS[0] + step / 20, PARIS[1] - step / 30) for step in range(-40, 40)]
    payments = [(str(n), "ann", 1, "EUR", place) for n, place in enumerate(places)]
    far = {
        (str(n), "location") for n, place in enumerate(places) if location.distance_km(*place, *PARIS) > 100
    }
    assert 0 < len(far) < len(places)
    assert fired(spark, known, *payments) == far


def test_the_profile_of_nobody_has_its_columns() -> None:
    assert profile({}).schema == PROFILE and profile({}).num_rows == 0
