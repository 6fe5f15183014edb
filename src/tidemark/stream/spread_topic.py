"""The records of a large batch, read by clients in Spark's executors: Spark's source and the conversion of its rows to
Arrow cost more, and read a partition on one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as Fault
from pyspark.sql import SparkSession

from tidemark.engine.executors import Spread
from tidemark.errors import TidemarkError
from tidemark.kafka import client as kafka
from tidemark.kafka.messages import is_end, records
from tidemark.settings.sections import KafkaSettings
from tidemark.stream.direct import RANGE_OPTIONS, Ranges

# A task has at least so many records.
_LEAST_ROWS = 10_000
_ROWS_AT_ONCE = 20_000
_SILENCE_SECONDS = 10.0
# A partition, the offset of a first record and the one after the last.
_Piece = tuple[int, int, int]


class UnreadableRangeError(Exception):
    """A client cannot read a range: its offsets or headers are unusual, or the cluster does not answer."""


def spread(
    spark: SparkSession, settings: KafkaSettings, ranges: Ranges, rows_of: Callable[[pa.Table], pa.Table]
) -> Spread:
    """The rows that `rows_of` makes of the records in these ranges, of which there is at least one, for up to one task
    per core. Tasks raise UnreadableRangeError."""
    shares = _shares(ranges, spark.sparkContext.defaultParallelism)
    columns = ("partitions", "starts", "ends")
    tables = [
        pa.table({name: [values] for name, values in zip(columns, zip(*share, strict=True), strict=True)})
        for share in shares
    ]
    # Spark makes one task of each batch of Arrow rows.
    frame = spark.createDataFrame(pa.concat_tables(tables))
    schema = rows_of(records(settings.topic, [])).schema
    return Spread(frame, partial(_rows, settings, rows_of), schema)


def failed(error: Exception) -> bool:
    """Whether a task has failed because a client cannot read its range."""
    return UnreadableRangeError.__name__ in str(error)


def _shares(ranges: Ranges, most: int) -> list[list[_Piece]]:
    """The ranges, cut into at most `most` shares with about as many offsets each."""
    size = max(_LEAST_ROWS, -(-sum(end - start for start, end in ranges.values()) // most))
    shares: list[list[_Piece]] = []
    left = 0
    for partition, (start, end) in ranges.items():
        while start < end:
            if not left:
                shares.append([])
                left = size
            stop = min(end, start + left)
            shares[-1].append((partition, start, stop))
            left -= stop - start
            start = stop
    return shares


def _rows(
    settings: KafkaSettings, rows_of: Callable[[pa.Table], pa.Table], shares: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for share in shares:
        for piece in zip(*(column[0].as_py() for column in share.columns), strict=True):
            try:
                for messages in _messages(settings, *piece):
                    yield from rows_of(records(settings.topic, messages)).to_batches()
            except (KafkaException, TidemarkError, ValueError) as error:
                raise UnreadableRangeError(f"partition {piece[0]}, offsets {piece[1:]}: {error}") from error


def _messages(settings: KafkaSettings, partition: int, start: int, end: int) -> Iterator[Sequence[Message]]:
    """The messages from one offset to before another. Offsets without a message are marks of transactions.

    Raises KafkaException; ValueError if the partition ends before."""
    consumer = _consumer(settings)
    consumer.assign([TopicPartition(settings.topic, partition, start)])
    heard = time.monotonic()
    try:
        while start < end:
            received = consumer.consume(min(_ROWS_AT_ONCE, end - start), timeout=0.05)
            messages = [each for each in received if not is_end(each)]
            if len(messages) < len(received) and (ended := received[-1].offset() or 0) < end:
                raise ValueError(f"the partition ends at offset {ended}")
            if received:
                heard, start = time.monotonic(), (received[-1].offset() or 0) + 1
            elif time.monotonic() - heard > _SILENCE_SECONDS:
                raise KafkaException(Fault(Fault._TIMED_OUT, "no answer to a fetch"))
            if before := [each for each in messages if (each.offset() or 0) < end]:
                yield before
    finally:
        consumer.unassign()


@lru_cache(maxsize=1)
def _consumer(settings: KafkaSettings) -> Consumer:
    """The consumer of this worker process, which Spark uses again for other tasks."""
    # Records after the end of a piece are of no use: few are received in advance.
    return kafka.consumer(settings, {**RANGE_OPTIONS, "queued.min.messages": _ROWS_AT_ONCE})
