"""A record's watermark is what came before it in its partition, whatever the batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from examples.kit.watermarks import advance, newest, watermark_table, with_watermark
from tidemark.contract.store import Commit
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

TABLE = watermark_table("lifts")
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
# (partition, offset, minutes after noon), then the watermark that it must get, in minutes.
EVENTS = [(0, 0, 5, None), (0, 1, 3, 5), (0, 2, 9, 5), (1, 0, 1, None), (0, 3, 4, 9), (1, 1, 0, 1)]


def frame(spark: SparkSession, events: list[tuple[int, int, int, int | None]]) -> DataFrame:
    rows = [(("t", p, o), NOON + timedelta(minutes=minute)) for p, o, minute, _ in events]
    return spark.createDataFrame(
        rows, "record struct<topic: string, partition: int, offset: long>, event_time timestamp"
    )


def minutes(batch: DataFrame) -> dict[tuple[int, int], int | None]:
    return {
        (row.record.partition, row.record.offset): None
        if row.watermark is None
        else int((row.watermark.astimezone(UTC) - NOON).total_seconds() // 60)
        for row in batch.collect()
    }


def store_at(path: Path) -> DeltaRsStore:
    store = DeltaRsStore(lakehouse.of(Settings.of(home=path)))
    store.ensure(TABLE)
    return store


def test_all_in_one_batch(spark: SparkSession) -> None:
    assert minutes(with_watermark(frame(spark, EVENTS), {})) == {(p, o): w for p, o, _, w in EVENTS}


def test_each_in_a_batch_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    actual = {}
    for number, event in enumerate(EVENTS):
        batch = with_watermark(frame(spark, [event]), newest(store, TABLE, "t"))
        actual |= minutes(batch)
        advance(store, TABLE, batch, Commit("w", number))
    assert actual == {(p, o): w for p, o, _, w in EVENTS}
    assert newest(store, TABLE, "t") == {0: NOON + timedelta(minutes=9), 1: NOON + timedelta(minutes=1)}


def test_a_batch_that_is_run_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for _ in range(2):
        advance(store, TABLE, frame(spark, EVENTS), Commit("w", 0))
    assert store.version(TABLE) == 1


def test_topics_are_kept_apart(spark: SparkSession, tmp_path: Path) -> None:
    store = store_at(tmp_path)
    advance(store, TABLE, frame(spark, EVENTS), Commit("w", 0))
    assert newest(store, TABLE, "other") == {}
