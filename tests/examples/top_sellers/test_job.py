"""The job without Kafka, batch by batch, into real tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.kit.load import as_json
from examples.top_sellers.job import together, write
from examples.top_sellers.tables import TABLES, TOP_TEN, TOTALS
from examples.top_sellers.topics import CATALOGUE, SALES
from tests.examples.kit.records import good_events
from tidemark.contract.store import Commit
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

Rows = Iterable[dict[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> DeltaRsStore:
    delta_store = DeltaRsStore(lakehouse.of(Settings.of(home=tmp_path)))
    for table in TABLES:
        delta_store.ensure(table)
    return delta_store


def sale(product: str, quantity: int, time: str, kind: str = "purchase") -> dict[str, Any]:
    event_time = f"2026-05-01T{time}:00Z"
    return {
        "order": "o",
        "kind": kind,
        "product": product,
        "quantity": quantity,
        "event_time": event_time,
    }


def price(product: str, cents: int, time: str) -> dict[str, Any]:
    valid_from = f"2026-05-01T{time}:00Z"
    return {"product": product, "name": f"{product}!", "price_cents": cents, "valid_from": valid_from}


def batch(spark: SparkSession, sales: Rows = (), catalogue: Rows = ()) -> DataFrame:
    return together(
        good_events(spark, SALES, map(as_json, sales)), good_events(spark, CATALOGUE, map(as_json, catalogue))
    )


def hours(store: DeltaRsStore) -> dict[tuple[int, str], tuple[int, int]]:
    """(units, revenue) by (hour, product)."""
    return {
        (row["window_start"].astimezone(UTC).hour, row["product"]): (row["units"], row["revenue_cents"])
        for row in store.read(TOTALS).to_pylist()
        if row["period"] == "hour"
    }


def ranks(store: DeltaRsStore) -> list[tuple[int, str]]:
    """Of the day."""
    rows = store.read(TOP_TEN, [[("period", "=", "day")]]).to_pylist()
    return sorted((row["rank"], row["product"]) for row in rows)


def test_a_price_that_becomes_known_later_prices_what_was_sold_before(
    spark: SparkSession, store: DeltaRsStore
) -> None:
    write(store, batch(spark, [sale("a", 2, "10:30"), sale("a", 1, "11:00")]), Commit("w", 0))
    assert hours(store) == {(10, "a"): (2, 0), (11, "a"): (1, 0)}
    write(store, batch(spark, catalogue=[price("a", 100, "08:00")]), Commit("w", 1))
    assert hours(store) == {(10, "a"): (2, 200), (11, "a"): (1, 100)}
    write(store, batch(spark, catalogue=[price("a", 500, "10:45")]), Commit("w", 2))
    assert hours(store) == {(10, "a"): (2, 200), (11, "a"): (1, 500)}


def test_a_refund_takes_a_product_from_the_top_and_brings_it_back(
    spark: SparkSession, store: DeltaRsStore
) -> None:
    write(store, batch(spark, [sale("a", 3, "10:00"), sale("b", 2, "10:00")]), Commit("w", 0))
    assert ranks(store) == [(1, "a"), (2, "b")]
    write(store, batch(spark, [sale("a", 3, "10:00", "refund")]), Commit("w", 1))
    assert ranks(store) == [(1, "b")]
    write(store, batch(spark, [sale("a", 2, "10:01")]), Commit("w", 2))
    assert ranks(store) == [(1, "a"), (1, "b")]


def test_a_batch_that_is_run_again_changes_nothing(spark: SparkSession, store: DeltaRsStore) -> None:
    news = batch(spark, [sale("a", 2, "10:30")], [price("a", 100, "08:00"), price("a", 300, "08:00")])
    write(store, news, Commit("w", 0))
    before = hours(store), ranks(store), [store.version(table) for table in TABLES]
    write(store, news, Commit("w", 0))
    assert (hours(store), ranks(store), [store.version(table) for table in TABLES]) == before
    assert hours(store) == {(10, "a"): (2, 600)}


def test_event_times_are_kept_as_they_are(spark: SparkSession, store: DeltaRsStore) -> None:
    write(store, batch(spark, [sale("a", 1, "00:00")]), Commit("w", 0))
    starts = {row["window_start"].astimezone(UTC) for row in store.read(TOTALS).to_pylist()}
    assert starts == {datetime(2026, 5, 1, tzinfo=UTC)}
