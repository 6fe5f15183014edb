"""Kafka records as a batch frame: what a job's functions get, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from examples.kit.events import Events, good, validated

_COLUMNS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


def records(
    spark: SparkSession,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    first_offset: int = 0,
) -> DataFrame:
    """Records of one partition, in this order."""
    rows = [
        (None, value, topic, partition, first_offset + number, NOON) for number, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, _COLUMNS)


def fetched(events: Events, values: Sequence[bytes | None], at: datetime = NOON) -> pa.Table:
    """Records of a topic as `examples.kit.fetched.fetch` brings them."""
    return pa.table(
        {
            "topic": [events.topic] * len(values),
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.array([at] * len(values), pa.timestamp("us", "UTC")),
            "value": pa.array(values, pa.binary()),
        }
    )


def good_events(spark: SparkSession, events: Events, values: Iterable[bytes], **where: int) -> DataFrame:
    """The good events among these values, as a job's source gives them."""
    return good(validated(records(spark, events.topic, values, **where), events))
