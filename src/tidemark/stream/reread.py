"""Reads batches of Kafka records that Spark's source cannot read, with another client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as Fault
from pyspark.sql import DataFrame, SparkSession

from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings
from tidemark.stream.lag import topic_ranges

# Spark's source uses microseconds. A timestamp in milliseconds that overflows them, for example of a producer that
# writes nanoseconds, fails its task at every attempt.
_REFUSED = "that overflows when converting to Spark's microsecond-precision TimestampType"
_MOST_MILLISECONDS = ((1 << 63) - 1) // 1000

# The columns of Spark's source that lines need.
_SCHEMA = (
    "topic string, partition int, offset long, timestamp timestamp, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_ARROW = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")), ("value", pa.binary()), ("headers", pa.list_(_HEADER)),
    ]
)  # fmt: skip
_ROWS, _BYTES = 5_000, 32 << 20
_SILENCE_SECONDS = 60.0


def refused(error: Exception) -> bool:
    """Whether Spark failed on a record's timestamp."""
    return _REFUSED in str(error)


def reread(settings: KafkaSettings, spark: SparkSession, checkpoint: Path, number: int) -> DataFrame:
    """The records of batch `number`, each partition read by one task; NULL for a timestamp that overflows
    microseconds. Raises ValueError if the checkpoint does not have the batch."""
    ranges = topic_ranges(settings.topic, checkpoint, number)
    if ranges is None:
        raise ValueError(f"checkpoint {checkpoint} does not have batch {number}")
    first = kafka.beginning_offsets(settings, settings.topic)
    known = [(p, first.get(p, 0) if start is None else start, end) for p, (start, end) in ranges.items()]
    waiting = [each for each in known if each[1] < each[2]]
    frame = spark.createDataFrame(waiting, "partition int, start long, end long")
    return frame.repartition(len(waiting) or 1, "partition").mapInArrow(partial(_records, settings), _SCHEMA)


def _records(settings: KafkaSettings, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    consumer = kafka.consumer(
        settings,
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest" if settings.allow_data_loss else "error",
            "fetch.message.max.bytes": kafka.MAX_RECORD_BYTES,
        },
    )
    try:
        for batch in ranges:
            for row in batch.to_pylist():
                consumer.assign([TopicPartition(settings.topic, row["partition"], row["start"])])
                yield from _batches(_until(consumer, row["end"]))
    finally:
        consumer.close()


def _until(consumer: Consumer, end: int) -> Iterator[Message]:
    """The messages before an offset. Between the last of them and the offset are only transaction marks."""
    heard = time.monotonic()
    while True:
        for message in consumer.consume(1_000, timeout=0.5):
            heard = time.monotonic()
            fault = message.error()
            if fault is not None and fault.code() == Fault._PARTITION_EOF:
                return
            if fault is not None:
                raise KafkaException(fault)
            if (message.offset() or 0) >= end:
                return
            yield message
        if time.monotonic() - heard > _SILENCE_SECONDS:
            raise KafkaException(Fault(Fault._TIMED_OUT, "TimeoutException: no answer to a fetch"))


def _batches(messages: Iterator[Message]) -> Iterator[pa.RecordBatch]:
    rows, size = [], 0
    for message in messages:
        rows.append(_row(message))
        size += len(rows[-1]["value"] or b"")
        if len(rows) == _ROWS or size > _BYTES:
            yield pa.RecordBatch.from_pylist(rows, _ARROW)
            rows, size = [], 0
    yield pa.RecordBatch.from_pylist(rows, _ARROW)


def _row(message: Message) -> dict[str, Any]:
    kind, moment = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE and abs(moment) <= _MOST_MILLISECONDS
    headers: Any = message.headers()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": moment * 1000 if known else None,
        "value": message.value(),
        "headers": [{"key": key, "value": value} for key, value in headers] if headers else None,
    }
