"""Validation of fetched events gives the same results as validation by Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.ad_campaigns import generator as ad_generator
from examples.ad_campaigns.job import EVENTS as AD_EVENTS
from examples.fraud_alerts import generator as payment_generator
from examples.fraud_alerts.topics import DEVICES, TRANSACTIONS
from examples.kit.events import Events, dead_letters, validated
from examples.kit.fetched import RECORD, fetch, letters, validate
from examples.kit.load import Event, Load, as_json
from tests.examples.kit.records import fetched, records
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule

ORDERS = Events(
    "orders",
    "id string, amount double, pieces long, event_time timestamp, note string",
    optional=("note",),
    rules=(
        RejectingRule("positive_amount", column("amount") > 0, "amount", "An amount."),
        RejectingRule(
            "not_ahead", column("event_time") <= column("record_timestamp"), "event_time", "A time."
        ),
    ),
    collected=True,
)
GOOD = {"id": "a", "amount": 1.5, "pieces": 3, "event_time": "2026-05-17T08:30:00.250Z", "note": 'ü "x" \\'}
ODD_VALUES = (
    "x", "", " 5", "5", "NaN", "12.5", "yesterday", "2026-05-17", "2026-05-17 08:30:00", "2026-02-30T08:30:00Z",
    "2026-05-17T08:30:00", "2026-05-17T10:30:00.1234567+02:00", "2026-05-17T24:00:00Z", "9999-12-31T00:00:00Z",
    "2026-05-17T08:30:00+19:00", "\u00e9", "\x7f", 5, -5, 0, 5.0, 1e300, 2**63, -(2**63), True, False, None, [],
    {}, {"no": "such"}, [1], float("nan"), float("inf"), "a\nb", "a\tb", "it's",
)  # fmt: skip
ODD_PARTS = (
    b"NaN", b"Infinity", b"1e5", b"1e999", b"-0", b"01", b"1.", b"+1", b"'", b'"', b"\\u00e9", b"\\ud800", b"\\q",
    b"\\/", b"\n", b"\r\n", b"\t", b" ", b"\x00", b"\x0b", b"\xff", b"\xc3", b"\xc3\xa9", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"{", b"}", b"{}", b"[", b"]", b",", b":", b"//x\n", b"/**/", b"#", b'"id":"b",',
    b'"more":{"id":[1,{"x":NaN}]},', b"null", b"true", b"9" * 1200, b"[" * 1100, b"\xc2\xa0", b"\xe2\x80\xa8",
)  # fmt: skip


def unusual(chance: random.Random) -> bytes:
    """A record as somebody might send it."""
    event: dict[str, Any] = dict(GOOD)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        event[chance.choice([*GOOD, "more", "ID"])] = chance.choice(ODD_VALUES)
    if chance.random() < 0.1:
        event.pop(chance.choice(list(event)))
    value = as_json(event) if chance.random() < 0.7 else repr(event).encode()
    for _ in range(chance.choice((0, 1, 1, 2))):
        place, end = chance.randrange(len(value) + 1), chance.randrange(len(value) + 1)
        how = chance.randrange(4)
        if how == 0:
            value = value[:place] + chance.choice(ODD_PARTS) + value[place:]
        elif how == 1:
            value = value[:place] + value[min(len(value), place + chance.randrange(4)) :]
        elif how == 2:
            value = value[: max(place, end)]
        else:
            value = chance.choice(ODD_PARTS) + value if place < end else value + chance.choice(ODD_PARTS)
    return value


def listed(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows, times in microseconds: some are beyond the years that Python knows."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(place, field.name, rows.column(place).cast(pa.int64()))
    return rows.to_pylist()


def both_results(spark: SparkSession, events: Events, values: Sequence[bytes | None]) -> tuple[Any, Any]:
    """The results by offset, of both: fields of the good, reasons of the bad."""
    raw = records(spark, events.topic, values)
    (part,) = fetch(raw)
    good, bad = validate(part, events, spark)
    names = [name for name in good.column_names if name not in RECORD]
    local = {row["offset"]: {name: row[name] for name in names} for row in listed(good)}
    local |= {row["offset"]: row["reasons"] for row in bad.to_pylist()}
    assert len(local) == good.num_rows + bad.num_rows == len(values)
    rows = listed(validated(raw, events).select(*names, "accepted", "reasons", "record.offset").toArrow())
    there = {
        row["offset"]: {name: row[name] for name in names} if row["accepted"] else row["reasons"]
        for row in rows
    }
    return local, there


@pytest.mark.parametrize("seed", [1, 2])
def test_any_bytes_are_validated_as_by_spark(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    values: list[bytes | None] = [unusual(chance) for _ in range(4_000)]
    values += [None, b"", b"{}", b" ", as_json(GOOD) * 2, as_json(GOOD) + b"\n" + as_json(GOOD)]
    local, there = both_results(spark, ORDERS, values)
    different = [(values[n], local[n], there[n]) for n in there if local[n] != there[n]]
    assert not different
    assert 500 < sum(isinstance(one, dict) for one in local.values()) < 3_500


def generated(events: Events) -> list[Event]:
    """What the topic's generator sends."""
    if events is AD_EVENTS:
        return list(ad_generator.events(Load(seed=2, rate=2_000, seconds=5)))
    sent = payment_generator.events(Load(seed=2, rate=300, seconds=10))
    return [event for event in sent if event.topic == events.topic]


@pytest.mark.parametrize("events", [AD_EVENTS, TRANSACTIONS, DEVICES], ids=lambda e: e.topic)
def test_what_the_examples_send_is_validated_without_spark(events: Events) -> None:
    sent = generated(events)
    values, bad = [event.value for event in sent], sum(bool(event.reason) for event in sent)
    # The times of made payments are those of a day of their own.
    rows = fetched(events, values, at=datetime(2026, 12, 31, tzinfo=UTC))
    good, refused = validate(rows, events, spark=None)  # type: ignore[arg-type]
    assert (good.num_rows, refused.num_rows) == (len(values) - bad, bad)


@pytest.mark.parametrize("events", [ORDERS, AD_EVENTS, TRANSACTIONS, DEVICES], ids=lambda e: e.topic)
def test_an_empty_batch_is_validated(events: Events) -> None:
    for rows in (fetched(events, []), fetched(events, []).slice(0, 0), fetched(events, [b"{"])[:0]):
        good, bad = validate(rows, events, spark=None)  # type: ignore[arg-type]
        assert good.num_rows == bad.num_rows == 0
        assert set(RECORD) - {"value"} < set(good.column_names)


def test_a_batch_too_large_to_fetch_at_once_comes_in_parts(spark: SparkSession) -> None:
    raw = records(spark, "orders", [b"x" * 100_000] * 60)
    before = spark.sparkContext.getConf().get("spark.driver.maxResultSize", "1g")
    spark.sparkContext._jsc.sc().conf().set("spark.driver.maxResultSize", "1m")
    try:
        parts = list(fetch(raw))
    finally:
        spark.sparkContext._jsc.sc().conf().set("spark.driver.maxResultSize", before)
    assert len(parts) > 1
    assert sorted(n for part in parts for n in part["offset"].to_pylist()) == list(range(60))


def test_dead_letters_are_those_that_spark_makes(spark: SparkSession) -> None:
    raw = records(spark, "orders", [b"{", as_json(GOOD), b'{"id":"a"}', None], partition=1, first_offset=7)
    (part,) = fetch(raw)
    local = {
        (letter.topic, letter.key, letter.value, letter.headers)
        for letter in letters(validate(part, ORDERS, spark).bad, ORDERS)
    }
    there = dead_letters(validated(raw, ORDERS), ORDERS).select("topic", "key", "value", F.col("headers"))
    assert local == {
        (row.topic, bytes(row.key), row.value and bytes(row.value), tuple((h.key, bytes(h.value)) for h in row.headers))
        for row in there.collect()
    }  # fmt: skip
    assert len(local) == 3
