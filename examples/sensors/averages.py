"""Averages in time windows: by the sensor's clock, by Kafka's, by the job's, and rolling."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract.store import Condition, Where
from tidemark.contract.table import Change, Column, Table

MINUTE, STEP = 60, 10
# How far the watermark stays behind the newest reading: a window is final when it has passed its end.
WATERMARK_DELAY = timedelta(seconds=10)

KEY = ("kind", "window_start", "sensor")
AVERAGES = Table(
    name="sensors.averages",
    about="One row per sensor and window of a minute, for each of four kinds of window.",
    kind="upsert",
    key=KEY,
    time="window_start",
    reads="readings",
    columns=(
        Column(
            "kind",
            "string",
            "`event`, `ingestion` and `processing`: tumbling minutes by when a value was measured, written to"
            " Kafka, counted here. `rolling`: the last minute of event time, every 10 seconds.",
        ),
        Column("window_start", "timestamp", "Start of the window."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("sensor", "string", "Sensor."),
        Column("readings", "long", "Readings so far."),
        Column("total", "double", "Sum of their values."),
        Column("average", "double", "Their mean."),
        Column("late", "long", "Readings that came after the window was final; they are in the average."),
        Column("final", "boolean", "Event time: whether the watermark has passed the end. Otherwise null."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)
_ADDED = ("readings", "total", "late")


def averages(readings: DataFrame, now: datetime) -> DataFrame:
    """Aggregates readings with a `watermark` (newest earlier event time) to partial rows, which add up.

    `now` is the processing time: that of the batch.
    """
    event = F.unix_timestamp("event_time")
    newest_step = F.floor(event / STEP) * STEP
    windows = [
        _window("event", F.floor(event / MINUTE) * MINUTE),
        _window("ingestion", F.floor(F.unix_timestamp("record.timestamp") / MINUTE) * MINUTE),
        _window("processing", F.lit(int(now.timestamp()) // MINUTE * MINUTE)),
        *(_window("rolling", newest_step - back) for back in range(0, MINUTE, STEP)),
    ]
    closed = F.col("watermark") - F.expr(f"INTERVAL {WATERMARK_DELAY.seconds} SECONDS") >= F.col("window_end")
    of_event_time = F.col("kind").isin("event", "rolling")
    return (
        readings.select("sensor", "value", "watermark", F.explode(F.array(*windows)).alias("window"))
        .select("sensor", "value", "watermark", "window.*")
        .withColumn("window_start", F.timestamp_seconds("start"))
        .withColumn("window_end", F.timestamp_seconds(F.col("start") + MINUTE))
        .groupBy("kind", "window_start", "window_end", "sensor")
        .agg(
            F.count("*").alias("readings"),
            F.sum("value").alias("total"),
            F.count_if(closed & of_event_time).alias("late"),
        )
    )


def _window(kind: str, start: SparkColumn) -> SparkColumn:
    return F.struct(F.lit(kind).alias("kind"), start.cast("long").alias("start"))


def touched(incoming: pa.Table) -> Where:
    """The rows that the incoming ones add to, and those that may become final."""
    still_open: list[Condition] = [("final", "=", False)]
    if incoming.num_rows == 0:
        return [still_open]
    bounds = pc.min_max(incoming["window_start"]).as_py()
    return [still_open, [("window_start", ">=", bounds["min"]), ("window_start", "<=", bounds["max"])]]


def combine(existing: pa.Table, incoming: pa.Table, watermark: datetime | None) -> Change:
    """Adds the incoming rows to existing ones, and marks rows as final that `watermark` has passed."""
    keys = [*KEY, "window_end"]
    rows = pa.concat_tables(
        [
            existing.select([*keys, *_ADDED, "final"]).append_column("_new", _flags(existing, False)),
            incoming.select([*keys, *_ADDED])
            .append_column("final", pa.nulls(incoming.num_rows, pa.bool_()))
            .append_column("_new", _flags(incoming, True)),
        ],
        promote_options="permissive",
    )
    rows = rows.group_by(keys).aggregate([*((n, "sum") for n in _ADDED), ("final", "max"), ("_new", "max")])
    rows = rows.rename_columns([*keys, *_ADDED, "was_final", "_new"])
    of_event_time = pc.is_in(rows["kind"], pa.array(["event", "rolling"]))
    limit = pa.scalar(watermark or datetime.fromtimestamp(0, UTC), rows["window_end"].type)
    final = pc.if_else(of_event_time, pc.less_equal(rows["window_end"], limit), pa.scalar(None, pa.bool_()))
    rows = (
        rows.append_column("average", pc.divide(rows["total"], pc.cast(rows["readings"], pa.float64())))
        .append_column("final", final)
        .append_column("updated_at", pa.repeat(pa.scalar(datetime.now(UTC), limit.type), rows.num_rows))
    )
    changed = pc.or_(
        rows["_new"], pc.not_equal(pc.fill_null(rows["was_final"], False), pc.fill_null(final, False))
    )
    return Change(rows.filter(changed).select(AVERAGES.column_names))


def watermark(
    known: Mapping[int, datetime], incoming: Mapping[int, datetime], partitions: int
) -> datetime | None:
    """The event time that all partitions have reached: that of the slowest partition."""
    newest = {p: max(t for t in (known.get(p), incoming.get(p)) if t) for p in {*known, *incoming}}
    return min(newest.values()) - WATERMARK_DELAY if len(newest) == partitions else None


def _flags(rows: pa.Table, value: bool) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows.num_rows)
