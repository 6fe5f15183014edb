"""Windows of time: which windows take a reading, what is added, when a row is final."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql import SparkSession

from examples.kit.load import as_json, iso
from examples.kit.watermarks import with_watermark
from examples.sensors.averages import AVERAGES, averages, combine, watermark
from examples.sensors.topics import READINGS
from tests.examples.kit.records import NOON, good_events

PROCESSED = datetime(2026, 6, 1, 9, 30, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def rows_of(spark: SparkSession, *readings: tuple[float, float], newest: float | None = None) -> pa.Table:
    """Partial rows of (seconds after noon, value), in order of arrival; Kafka got them all at noon."""
    values = [
        as_json({"sensor": "oil", "value": value, "event_time": iso(at(second).timestamp())})
        for second, value in readings
    ]
    known = {} if newest is None else {0: at(newest)}
    return averages(with_watermark(good_events(spark, READINGS, values), known), PROCESSED).toArrow()


def of_kind(rows: pa.Table, kind: str) -> dict[datetime, tuple[int, float, int]]:
    return {
        row["window_start"].astimezone(UTC): (row["readings"], row["total"], row["late"])
        for row in rows.to_pylist()
        if row["kind"] == kind
    }


def test_each_clock_has_its_own_minute(spark: SparkSession) -> None:
    rows = rows_of(spark, (-1, 10.0), (61, 20.0))
    assert of_kind(rows, "event") == {at(-60): (1, 10.0, 0), at(60): (1, 20.0, 0)}
    assert of_kind(rows, "ingestion") == {at(0): (2, 30.0, 0)}
    assert of_kind(rows, "processing") == {PROCESSED.replace(second=0): (2, 30.0, 0)}


def test_a_reading_is_in_six_rolling_minutes(spark: SparkSession) -> None:
    rolling = of_kind(rows_of(spark, (65, 1.0)), "rolling")
    assert sorted(rolling) == [at(second) for second in (10, 20, 30, 40, 50, 60)]


def test_late_is_what_comes_after_the_window_was_final(spark: SparkSession) -> None:
    # The minute of noon is final when a reading of 12:01:10 has been seen.
    assert of_kind(rows_of(spark, (30, 1.0), newest=69), "event")[at(0)] == (1, 1.0, 0)
    rows = rows_of(spark, (30, 1.0), newest=70)
    assert of_kind(rows, "event")[at(0)] == (1, 1.0, 1)
    assert of_kind(rows, "ingestion")[at(0)] == (1, 1.0, 0)


def table(**kinds: tuple[int, float]) -> pa.Table:
    """One incoming row per kind, for the minute of noon: readings and their sum."""
    rows = [
        {
            "kind": kind,
            "window_start": at(0),
            "window_end": at(60),
            "sensor": "oil",
            "readings": readings,
            "total": total,
            "late": 0,
        }
        for kind, (readings, total) in kinds.items()
    ]
    names = ("kind", "window_start", "window_end", "sensor", "readings", "total", "late")
    return pa.Table.from_pylist(rows, pa.schema([AVERAGES.arrow_schema.field(name) for name in names]))


EMPTY = AVERAGES.arrow_schema.empty_table()


def test_rows_add_up() -> None:
    first = combine(EMPTY, table(event=(2, 10.0)), None).rows
    (row,) = combine(first, table(event=(1, 20.0)), at(59)).rows.to_pylist()
    assert (row["readings"], row["average"], row["final"]) == (3, 10.0, False)


def test_a_row_becomes_final_without_a_new_reading() -> None:
    first = combine(EMPTY, table(event=(2, 10.0), ingestion=(2, 10.0)), None).rows
    (row,) = combine(first, table(), at(60)).rows.to_pylist()
    assert (row["kind"], row["readings"], row["final"]) == ("event", 2, True)


def test_what_does_not_change_is_not_written() -> None:
    first = combine(EMPTY, table(event=(2, 10.0)), at(60)).rows
    assert combine(first, table(), at(90)).rows.num_rows == 0


def test_the_watermark_waits_for_the_partition_furthest_behind() -> None:
    assert watermark({}, {0: at(100)}, 2) is None
    assert watermark({0: at(100)}, {1: at(40)}, 2) == at(30)
    assert watermark({0: at(100), 1: at(90)}, {1: at(40)}, 2) == at(80)


def test_the_schema_of_partial_rows_fits_the_table(spark: SparkSession) -> None:
    assert combine(EMPTY, rows_of(spark, (0, 1.0)), None).rows.schema.equals(AVERAGES.arrow_schema)
