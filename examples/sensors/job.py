"""Averages of sensors in time, count and delta windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.kit.job import Job, Sources
from examples.kit.watermarks import advance, newest, watermark_table, with_watermark
from examples.sensors.averages import AVERAGES, averages, combine, touched, watermark
from examples.sensors.sequences import SEQUENCES, sequences
from examples.sensors.topics import READINGS
from tidemark.contract.store import Commit, Store
from tidemark.stream.query import Query

WATERMARKS = watermark_table("sensors")


def write_averages(store: Store, batch: DataFrame, commit: Commit) -> None:
    """Commits the averages that a batch of readings changes, then the watermarks."""
    known = newest(store, WATERMARKS, READINGS.topic)
    readings = with_watermark(batch, known).persist()
    try:
        if store.committed(AVERAGES, commit.writer) < commit.number:
            rows = readings.groupBy("record.partition").agg(F.max("event_time")).collect()
            reached = watermark(
                known, {partition: time.astimezone(UTC) for partition, time in rows}, READINGS.partitions
            )
            incoming = averages(readings, datetime.now(UTC)).toArrow()
            existing = store.read(AVERAGES, touched(incoming))
            store.upsert(AVERAGES, combine(existing, incoming, reached), commit)
        advance(store, WATERMARKS, readings, commit)
    finally:
        readings.unpersist()


def write_sequences(store: Store, batch: DataFrame, commit: Commit) -> None:
    """Commits the results of count and delta windows."""
    rows = batch.toArrow()
    if rows.num_rows == 0:
        return
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    store.append_arrow(SEQUENCES, rows.append_column("updated_at", pa.repeat(now, rows.num_rows)), commit)


def queries(sources: Sources) -> Sequence[Query]:
    """One query for time windows, whose state is the table, and one for windows with Spark state."""
    store, readings = sources.store, sources.events(READINGS)
    return [
        Query("averages", lambda: readings, partial(write_averages, store), commits=(AVERAGES, WATERMARKS)),
        Query("sequences", lambda: sequences(readings), partial(write_sequences, store)),
    ]


JOB = Job("sensors", version=1, inputs=(READINGS,), queries=queries, tables=(AVERAGES, SEQUENCES, WATERMARKS))
