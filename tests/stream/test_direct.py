"""Small batches are read without a job of Spark, and have the same rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bronze.access_log import access_log, rows
from tests.pipeline.harness import assert_equal, fresh, produce, run_here
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.kafka import client as kafka
from tidemark.settings import Settings
from tidemark.settings.sections import KafkaSettings
from tidemark.stream.direct import DirectRecords, Ranges

_OBJECT = b'{"tidemark_site": "of-key", "tidemark_format": "json", "tidemark_id": 7, "n": "\xff"}'
Header = tuple[str, bytes | None]
ODD: Sequence[tuple[bytes | None, list[Header], int]] = [
    (b"plain", [], 1_763_726_400_000),
    (None, [], 1_763_726_400_001),
    (b"", [("site", b"of-header"), ("site", b"second"), ("other", b"\xff")], 1_763_726_400_002),
    (_OBJECT, [], 1_763_726_400_003),
    (_OBJECT, [("site", b"of-header"), ("id", None), ("fields", b"a b")], 1_763_726_400_004),
    (b"\xff\x00", [("chunk", b"2"), ("privacy", b"sealed"), ("format", "gr\xf6ße".encode())], -5),
    (b'{"tidemark_site": [1, 2]', [("id", b"")], 253_402_300_800_000),
]
# Kafka's largest time is beyond microseconds, and Spark's source cannot read it.
NO_TIME = (b"line", list[Header](), (1 << 63) - 1)


def test_the_rows_are_those_of_spark(broker: Settings, spark: SparkSession) -> None:
    settings = of_topic(broker)
    for partition in (0, 1):
        send(settings, ODD, partition)
    direct = DirectRecords(settings)
    seen = [direct.read({0: (0, 3), 1: (0, 0)}), direct.read({0: (3, 7), 1: (0, 7)})]
    frame = (
        spark.read.format("kafka")
        .options(**kafka.spark_options(settings), subscribe=settings.topic, includeHeaders="true")
        .load()
    )
    expected = access_log(frame).toArrow()
    found = rows(pa.concat_tables([part for part in seen if part]))
    assert in_order(found) == in_order(expected.select(found.column_names))
    assert found.num_rows == 2 * len(ODD)


def test_a_timestamp_beyond_microseconds_is_none(broker: Settings) -> None:
    settings = of_topic(broker)
    send(settings, [NO_TIME], 0)
    seen = DirectRecords(settings).read({0: (0, 1)})
    assert seen and seen["kafka_timestamp"].to_pylist() == [None]


def test_records_that_arrive_meanwhile_are_those_of_the_next_range(broker: Settings) -> None:
    settings = of_topic(broker)
    direct = DirectRecords(settings)
    send(settings, [(b"%d" % n, [], n) for n in range(50)], 0)
    for start in range(0, 50, 10):
        part = direct.read({0: (start, start + 10)})
        assert part and part["value"].to_pylist() == [b"%d" % n for n in range(start, start + 10)]
    again = direct.read({0: (0, 5)})
    assert again and again["offset"].to_pylist() == list(range(5)), "a batch that is run again"


@pytest.mark.parametrize(
    ("records", "ranges"),
    [
        ([(b"line", [("site", b"\xff")], 1)], {0: (0, 1)}),
        ([(b"line", [], 1)], {0: (0, 2)}),
        ([(b"line", [], 1)], {0: (0, 1), 9: (0, 1)}),
        ([(b"x" * (9 << 20), [], 1)] * 4, {0: (0, 4)}),
        ([], {0: (7, 8)}),
    ],
    ids=["no text", "not arrived", "no partition", "long", "beyond the end"],
)
def test_everything_unusual_is_left_to_spark(
    broker: Settings, records: Sequence[tuple[bytes | None, list[Header], int]], ranges: Ranges
) -> None:
    settings = of_topic(broker)
    send(settings, records, 0)
    direct = DirectRecords(settings)
    assert direct.read(ranges) is None
    assert direct.read(ranges) is None, "for a while without a try"


def test_offsets_of_marks_of_transactions_have_no_rows(broker: Settings) -> None:
    settings = of_topic(broker)
    transactions(settings, [(b"line",), (b"line",)], 0)
    for splits in ((0, 1, 4), (0, 3, 4), (0, 2, 3, 4), (0, 4), (1, 2, 4)):
        direct = DirectRecords(settings)
        parts = [direct.read({0: span}) for span in pairwise(splits)]
        offsets = [None if part is None else part["offset"].to_pylist() for part in parts]
        assert offsets == [[n for n in (0, 2) if start <= n < end] for start, end in pairwise(splits)]


def test_a_broker_that_is_away_is_left_to_spark(broker: Settings) -> None:
    settings = broker.changed(bootstrap_servers="127.0.0.1:1").kafka
    assert DirectRecords(settings).read({0: (0, 1)}) is None


def test_a_pipeline_reads_small_batches_so(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, pairs = fresh(broker, tmp_path), traffic(seed=8, lines=900)
    counts = []

    def counted(self: DirectRecords, ranges: Ranges) -> pa.Table | None:
        records = read(self, ranges)
        counts.append(records and records.num_rows)
        return records

    read = DirectRecords.read
    monkeypatch.setattr(DirectRecords, "read", counted)
    for start in (0, 300, 600):
        produce(settings, pairs[start : start + 300])
        run_here(spark, settings)
    assert counts == [300, 300, 300]
    assert_equal(settings, recount(pairs))


def of_topic(broker: Settings) -> KafkaSettings:
    """Settings of a new topic with two partitions, which takes whatever time a producer writes."""
    settings = broker.changed(topic=f"direct-{uuid.uuid4().hex[:8]}").kafka
    times = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
    kafka.ensure_topic(settings, settings.topic, partitions=2, config=times)
    return settings


def send(
    settings: KafkaSettings, records: Sequence[tuple[bytes | None, list[Header], int]], partition: int
) -> None:
    producer = Producer({**kafka.client_config(settings), "message.max.bytes": kafka.MAX_RECORD_BYTES})
    for value, headers, time in records:
        producer.produce(settings.topic, value, headers=headers, timestamp=time, partition=partition)
    assert producer.flush(20) == 0


def transactions(settings: KafkaSettings, parts: Sequence[Sequence[bytes] | None], partition: int) -> None:
    """A transaction of each part; None is one that is aborted."""
    producer = Producer({**kafka.client_config(settings), "transactional.id": settings.topic})
    producer.init_transactions(20)
    for part in parts:
        producer.begin_transaction()
        for value in part or (b"aborted",):
            producer.produce(settings.topic, value, partition=partition)
        producer.flush(20)
        if part is None:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    assert kafka.await_committed(settings, settings.topic)


def in_order(table: pa.Table) -> list[dict[str, object]]:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
