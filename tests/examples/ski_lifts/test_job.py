"""Rides named by their minute; which windows take them, and which come too late."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.kit.load import Load, as_json, iso
from examples.kit.watermarks import newest, with_watermark
from examples.ski_lifts.check import truth
from examples.ski_lifts.generator import events
from examples.ski_lifts.job import (
    RIDES,
    RIDES_PER_LIFT,
    WATERMARKS,
    late_rides,
    rides_per_lift,
    write,
)
from tests.examples.kit.records import good_events
from tidemark.contract.store import Commit
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

EIGHT = datetime(2026, 2, 14, 8, tzinfo=UTC)


def rides(
    spark: SparkSession, *minutes: float, before: float | None = None, first_offset: int = 0
) -> DataFrame:
    """Rides of one lift at these minutes after eight, in order of arrival, after one at `before`."""
    values = [
        as_json({"lift": "gondola", "pass": f"P{n}", "event_time": iso(EIGHT.timestamp() + minute * 60)})
        for n, minute in enumerate(minutes)
    ]
    known = {} if before is None else {0: datetime.fromtimestamp(EIGHT.timestamp() + before * 60, UTC)}
    return with_watermark(good_events(spark, RIDES, values, first_offset=first_offset), known)


def windows(batch: DataFrame) -> dict[int, int]:
    """Rides by the minute after eight at which the window starts."""
    rows = rides_per_lift(batch).collect()
    assert all((row.window_end - row.window_start).total_seconds() == 600 for row in rows)
    return {int((row.window_start.astimezone(UTC) - EIGHT).total_seconds() // 60): row.rides for row in rows}


def test_a_ride_counts_in_both_windows_over_it(spark: SparkSession) -> None:
    assert windows(rides(spark, 7)) == {0: 1, 5: 1}


def test_a_ride_at_the_border_belongs_to_the_windows_that_start_there(spark: SparkSession) -> None:
    assert windows(rides(spark, 5, 4.999)) == {0: 2, 5: 1, -5: 1}


def test_a_late_ride_counts_where_the_window_is_still_open(spark: SparkSession) -> None:
    # The windows over minute 7 end at 10 and 15, and close at 15 and 20.
    assert windows(rides(spark, 7, before=14)) == {0: 1, 5: 1}
    assert windows(rides(spark, 7, before=15)) == {5: 1}
    assert windows(rides(spark, 7, before=20)) == {}


def test_only_a_ride_that_no_window_takes_is_put_aside(spark: SparkSession) -> None:
    assert late_rides(rides(spark, 7, before=19.9)).count() == 0
    (late,) = late_rides(rides(spark, 7, 21, before=20)).collect()
    assert (late.topic, bytes(late.key)) == ("rides.late", b"0/0")
    assert b'"pass":"P0"' in bytes(late.value)


def test_a_ride_depends_on_those_before_it_in_the_same_batch(spark: SparkSession) -> None:
    assert windows(rides(spark, 21, 7)) == {15: 1, 20: 1}
    assert windows(rides(spark, 7, 21)) == {0: 1, 5: 1, 15: 1, 20: 1}


def test_the_generator_makes_rides_late_for_one_window_for_all_and_for_none() -> None:
    load = Load(seed=1, rate=200, seconds=20)
    generated = list(events(load))
    counted, late = truth(generated)
    good = sum(not event.reason for event in generated)
    assert late
    assert counted.total() < 2 * (good - late.total())
    assert list(events(load)) == generated


def test_a_crash_between_two_commits_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    store = DeltaRsStore(lakehouse.of(Settings.of(home=tmp_path)))
    store.ensure(RIDES_PER_LIFT)
    store.ensure(WATERMARKS)
    sent: list[int] = []

    def crash(rows: DataFrame) -> None:
        raise ConnectionError("killed")

    first, second = rides(spark, 7, 40), rides(spark, 8, 41, first_offset=2)
    write(store, lambda late: sent.append(late.count()), first.drop("watermark"), Commit("w", 0))
    with pytest.raises(ConnectionError):
        write(store, crash, second.drop("watermark"), Commit("w", 1))
    write(store, lambda late: sent.append(late.count()), second.drop("watermark"), Commit("w", 1))
    # The ride of minute 8 comes after that of minute 40, in both attempts.
    assert sent == [0, 1]
    counted = {
        (row["window_start"].astimezone(UTC) - EIGHT).total_seconds() // 60: row["rides"]
        for row in store.read(RIDES_PER_LIFT).to_pylist()
    }
    assert counted == {0: 1, 5: 1, 35: 2, 40: 2}
    assert newest(store, WATERMARKS, RIDES.topic)[0] == datetime.fromtimestamp(
        EIGHT.timestamp() + 41 * 60, UTC
    )
