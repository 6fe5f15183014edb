"""Records that only their Kafka timestamp, their site or what stands around the line makes odd."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh, run_here
from tidemark.kafka import client as kafka
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings

LINE = b'203.0.113.7 - - [21/Nov/2025:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "Firefox/140.0"'
_NOON_MS = 1_763_726_400_000  # 21 November 2025
# A broker that takes whatever time a producer writes.
_ANY_TIME = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
_NO_TIMES = (
    253_402_300_800_000,  # the year 10000
    _NOON_MS * 1_000,  # in microseconds by mistake
    _NOON_MS * 1_000_000,  # in nanoseconds: beyond what Spark's source can read
    (1 << 63) - 1,
    -1,  # none, as records of old clients have
    -10_000,
)


@pytest.mark.parametrize("small", [50_000, 0], ids=["local", "executors"])
def test_they_are_accepted_or_rejected_like_any_other(
    broker: Settings, spark: SparkSession, tmp_path: Path, small: int
) -> None:
    settings = fresh(broker, tmp_path, topic_partitions=2, local_rows=small)
    settings = settings.changed(topic=f"{settings.kafka.topic}-of-any-time")
    kafka.ensure_topic(settings.kafka, settings.kafka.topic, config=_ANY_TIME)
    records = [
        *((LINE, time, "a") for time in (_NOON_MS, *_NO_TIMES)),
        (LINE, _NOON_MS, "s" * 201),
        (LINE, _NOON_MS, "bell\a"),
        (b"\xef\xbb\xbf " + LINE + b" \r", _NOON_MS, "a"),
    ]
    parts = (range(5), range(5, len(records))) if small else (range(len(records)),)
    for part in parts:
        send(settings, records, part)
        run_here(spark, settings)

    reasons = [[], *[["invalid_kafka_timestamp"]] * len(_NO_TIMES), ["invalid_site"], ["invalid_site"], []]
    assert_places(settings, records, reasons)
    shown = table(settings, "quality/accounts")
    assert sum(row["received"] for row in shown) == len(records)
    assert sum(row["rejected"] for row in shown) == len(records) - 2
    assert [row["site"] for row in table(settings, "quality/sites")] == ["a"]
    if small:  # a rebuild takes the same way after batches of either
        differences = Pipeline.of(settings).on(spark).rebuild().run(["silver.requests"])
        assert differences == []
        assert_places(settings, records, reasons)


def assert_places(
    settings: Settings, records: list[tuple[bytes, int, str]], reasons: list[list[str]]
) -> None:
    bronze = table(settings, "bronze/access_log")
    bronze.sort(key=lambda row: (row["offset"], row["partition"]))
    # They went to the partitions in turn.
    numbers = {
        (row["partition"], row["offset"]): 2 * n + partition
        for partition in (0, 1)
        for n, row in enumerate(row for row in bronze if row["partition"] == partition)
    }
    for row in bronze:
        line, time, site = records[numbers[row["partition"], row["offset"]]]
        assert (row["value"], row["site"]) == (line, site)
        known = 0 <= time < _NO_TIMES[0]
        assert row["kafka_timestamp"] == (datetime.fromtimestamp(time / 1000, UTC) if known else None)
    actual = {
        name: {numbers[row["partition"], row["offset"]]: row for row in table(settings, f"silver/{name}")}
        for name in ("requests", "rejected")
    }
    rejected = {n: (row["reasons"], row["value"]) for n, row in actual["rejected"].items()}
    assert rejected == {n: (broken, records[n][0]) for n, broken in enumerate(reasons) if broken}
    assert actual["requests"].keys() == {n for n, broken in enumerate(reasons) if not broken}


def send(settings: Settings, records: list[tuple[bytes, int, str]], numbers: range) -> None:
    """Each record to partition 0 or 1 in turn, in a transaction, whose marks are in the partitions, too."""
    producer = Producer({**kafka.client_config(settings.kafka), "transactional.id": settings.kafka.topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in numbers:
        line, time, site = records[number]
        producer.produce(
            settings.kafka.topic,
            line,
            headers=[("site", site.encode())],
            timestamp=time,
            partition=number % 2,
        )
    producer.commit_transaction(20)
    assert kafka.await_committed(settings.kafka, settings.kafka.topic)


def table(settings: Settings, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(settings.tables / name).to_pyarrow_table().to_pylist()
    return rows
