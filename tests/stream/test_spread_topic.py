"""Clients in executors read large batches, and read the same rows as Spark."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from bronze.access_log import access_log, rows
from tests.pipeline.harness import assert_equal, fresh, produce, run_here
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tests.stream.test_direct import NO_TIME, ODD, in_order, of_topic, send, transactions
from tidemark.kafka import client as kafka
from tidemark.kafka.messages import records
from tidemark.settings import Settings
from tidemark.settings.sections import KafkaSettings
from tidemark.stream import spread_topic
from tidemark.stream.direct import Ranges


def read(spark: SparkSession, settings: KafkaSettings, ranges: Ranges) -> list[dict[str, object]]:
    return in_order(spread_topic.spread(spark, settings, ranges, rows).rows.toArrow())


def spark_read(spark: SparkSession, settings: KafkaSettings) -> list[dict[str, object]]:
    options = kafka.spark_options(settings) | {"subscribe": settings.topic, "includeHeaders": "true"}
    lines = access_log(spark.read.format("kafka").options(**options).load())
    return in_order(lines.select(*ROWS).toArrow())


ROWS = rows(records("", [])).column_names


def test_the_rows_are_those_of_spark(
    broker: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = of_topic(broker)
    send(settings, ODD, 0)
    transactions(settings, [(b"a", b"b"), None, (b"c",), None], 1)
    ends = kafka.end_offsets(settings, settings.topic)
    assert ends == {0: len(ODD), 1: 3 + 2 + 4}, "the marks have offsets, too, and so have aborted records"
    expected = spark_read(spark, settings)
    assert [row["value"] for row in expected[len(ODD) :]] == [b"a", b"b", b"c"]
    whole = {partition: (0, end) for partition, end in ends.items()}
    assert read(spark, settings, whole) == expected
    # Each task begins at another offset: at a record, at a mark, and where nothing follows any more.
    monkeypatch.setattr(spread_topic, "_LEAST_ROWS", 1)
    pieces = [{p: (n, n + 1)} for p, end in ends.items() for n in range(end)]
    assert [row for piece in pieces for row in read(spark, settings, piece)] == expected


def test_a_timestamp_that_spark_cannot_read_is_none(broker: Settings, spark: SparkSession) -> None:
    settings = of_topic(broker)
    send(settings, [NO_TIME, (b"line", [], 1)], 0)
    read_rows = read(spark, settings, {0: (0, 2)})
    assert [row["kafka_timestamp"] is None for row in read_rows] == [True, False]


@given(sizes=st.lists(st.integers(0, 100_000), min_size=1, max_size=6).filter(any), tasks=st.integers(1, 50))
def test_shares_have_each_offset_once(sizes: list[int], tasks: int) -> None:
    ranges = {partition: (7, 7 + size) for partition, size in enumerate(sizes)}
    shares = spread_topic._shares(ranges, tasks)
    assert 1 <= len(shares) <= tasks
    pieces = [piece for share in shares for piece in share]
    joined: dict[int, tuple[int, int]] = {}
    for partition, start, end in pieces:
        first, reached = joined.get(partition, (start, start))
        assert start == reached < end
        joined[partition] = (first, end)
    assert joined == {partition: span for partition, span in ranges.items() if span[0] < span[1]}
    counts = [sum(end - start for _, start, end in share) for share in shares]
    assert max(counts) - min(counts[:-1], default=max(counts)) == 0, "all but the last are as large"
    assert len(shares) == 1 or min(counts[:-1]) >= spread_topic._LEAST_ROWS


@pytest.mark.parametrize(
    "piece",
    [(0, 0, 5), (0, 3, 5), (0, 9, 10), (7, 0, 1)],
    ids=["beyond the end", "deleted before", "after the end", "no partition"],
)
def test_a_range_that_is_not_there_is_told(
    broker: Settings, piece: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_topic, "_SILENCE_SECONDS", 0.5)
    settings = of_topic(broker)
    send(settings, [(b"line", [], 1)] * 4, 0)
    if piece == (0, 3, 5):
        send(settings, [(b"line", [], 1)] * 4, 0)
        admin = AdminClient(kafka.client_config(settings))
        gone = admin.delete_records([TopicPartition(settings.topic, 0, 4)])
        assert all(future.result(20).low_watermark == 4 for future in gone.values())
    share = pa.record_batch([[[value]] for value in piece], names=["partitions", "starts", "ends"])
    with pytest.raises(spread_topic.UnreadableRangeError, match=f"partition {piece[0]}"):
        list(spread_topic._rows(settings, rows, iter([share])))


def test_what_clients_cannot_read_is_left_to_spark(
    broker: Settings, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, pairs = fresh(broker, tmp_path, local_rows=0), traffic(seed=9, lines=600)
    produce(settings, pairs[:300])
    send(settings.kafka, [(b"line", [("format", b"\xff")], 1_763_726_400_000)], 0)
    with caplog.at_level(logging.INFO, "tidemark.stream"):
        run_here(spark, settings)
    assert "batch 0 of requests is read in another way" in caplog.text
    produce(settings, pairs[300:])
    run_here(spark, settings)
    bronze = DeltaTable(settings.tables / "bronze/access_log").to_pyarrow_table(columns=["value", "format"])
    assert bronze.num_rows == 601
    assert [row["format"] for row in bronze.to_pylist() if row["value"] == b"line"] == ["\ufffd"]


def test_large_batches_of_one_partition_are_read_on_all_cores(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, pairs = fresh(broker, tmp_path, local_rows=0, topic_partitions=1), traffic(seed=9, lines=900)
    monkeypatch.setattr(spread_topic, "_LEAST_ROWS", 100)
    shares: list[int] = []

    def counted(ranges: Ranges, most: int) -> Sequence[object]:
        made = shared(ranges, most)
        shares.append(len(made))
        return made

    shared = spread_topic._shares
    monkeypatch.setattr(spread_topic, "_shares", counted)
    produce(settings, pairs)
    run_here(spark, settings)
    assert shares == [spark.sparkContext.defaultParallelism]
    assert_equal(settings, recount(pairs))
