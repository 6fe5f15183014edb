"""Events are validated: good ones by their fields, bad ones by the reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from examples.kit.events import Events, dead_letters, good, validated
from tests.examples.kit.records import records
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule

ORDERS = Events(
    "orders",
    "id string, amount double, event_time timestamp, note string",
    optional=("note",),
    rules=(
        RejectingRule("positive_amount", column("amount") > 0, "amount", "An amount."),
        RejectingRule(
            "recent", column("event_time") >= datetime(2020, 1, 1, tzinfo=UTC), "event_time", "A time."
        ),
    ),
)
GOOD = b'{"id":"a","amount":1.5,"event_time":"2026-05-17T08:30:00.250Z"}'


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        (GOOD, []),
        (b' {"id":"a","amount":2,"event_time":"2026-05-17T10:30:00+02:00","note":null,"more":{}}', []),
        (GOOD[:-1], ["not_json"]),
        (b"", ["not_json"]),
        (None, ["not_json"]),
        (b"{", ["not_json"]),
        (b'["id"]', ["not_json"]),
        (b"[" + GOOD + b"]", ["not_json"]),
        (b'"text"', ["not_json"]),
        (b"null", ["not_json"]),
        (b'{"id":"\xff\xfe","amount":1,"event_time":"2026-05-17T08:30:00Z"}', ["not_json"]),
        (b'{"id":"a","amount":"much","event_time":"2026-05-17T08:30:00Z"}', ["wrong_type"]),
        (b'{"id":"a","amount":NaN,"event_time":"2026-05-17T08:30:00Z"}', ["not_json"]),
        (b'{"id":"a","amount":1,"event_time":"yesterday"}', ["wrong_type"]),
        (b'{"id":"a","amount":1,"event_time":{"no":"such"}}', ["wrong_type"]),
        (b'{"amount":1,"event_time":"2026-05-17T08:30:00Z"}', ["missing_id"]),
        (b'{"id":null,"amount":-1}', ["missing_id", "missing_event_time", "positive_amount", "recent"]),
        (b'{"id":"a","amount":0,"event_time":"2026-05-17T08:30:00Z"}', ["positive_amount"]),
        (b'{"id":"a","amount":1,"event_time":"1999-05-17T08:30:00Z"}', ["recent"]),
    ],
)
def test_reasons(spark: SparkSession, value: bytes | None, reasons: list[str]) -> None:
    (row,) = validated(records(spark, "orders", [value]), ORDERS).collect()
    assert row.reasons == reasons


def test_a_good_event_has_its_fields_and_its_place(spark: SparkSession) -> None:
    (row,) = good(
        validated(records(spark, "orders", [GOOD, b"{"], partition=1, first_offset=7), ORDERS)
    ).collect()
    assert row.asDict() == {
        "id": "a",
        "amount": 1.5,
        "event_time": row.event_time,
        "note": None,
        "record": row.record,
    }
    assert row.event_time.astimezone(UTC) == datetime(2026, 5, 17, 8, 30, 0, 250_000, UTC)
    assert (row.record.topic, row.record.partition, row.record.offset) == ("orders", 1, 7)


def test_a_dead_letter_keeps_the_bytes_and_says_why_and_where_from(spark: SparkSession) -> None:
    values = [GOOD, b'{"id":"\xff', b'{"amount":-1}']
    rows = dead_letters(validated(records(spark, "orders", values, partition=1), ORDERS), ORDERS).collect()
    assert [(row.topic, bytes(row.key), bytes(row.value)) for row in rows] == [
        ("orders.dead-letters", b"orders/1/1", values[1]),
        ("orders.dead-letters", b"orders/1/2", values[2]),
    ]
    headers = {header.key: bytes(header.value) for header in rows[1].headers}
    assert headers == {
        "reason": b"missing_id,missing_event_time,positive_amount,recent",
        "topic": b"orders",
        "partition": b"1",
        "offset": b"2",
    }


def test_one_field_alone_is_validated_like_all(spark: SparkSession) -> None:
    # Spark parses only the fields that a query uses; the result must not depend on which those are.
    bad = b'{"id":"a","amount":"much","event_time":"2026-05-17T08:30:00Z"}'
    assert good(validated(records(spark, "orders", [bad, GOOD]), ORDERS)).select("id").count() == 1
