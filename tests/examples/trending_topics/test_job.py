"""The job's steps on Spark and on its tables: counting, revising, and doing nothing twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from datasketches import frequent_strings_sketch
from pyspark.sql import SparkSession

from examples.trending_topics.job import MINUTES, TRENDS, count, mentions, per_minute, rank, read_trends
from examples.trending_topics.trends import Definition
from tidemark.contract.store import Commit
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEFINITION = Definition(least_history=3, floor=5)


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


@pytest.fixture
def store(tmp_path: Path) -> DeltaRsStore:
    delta_store = DeltaRsStore(lakehouse.of(Settings.of(home=tmp_path)))
    for table in (MINUTES, TRENDS):
        delta_store.ensure(table)
    return delta_store


def batch(counts: dict[int, dict[str, int]]) -> pa.Table:
    """What a micro-batch adds: by minute, how often each topic."""
    rows = []
    for number, topics in counts.items():
        sketch = frequent_strings_sketch(10)
        for topic, times in topics.items():
            sketch.update(topic, times)
        rows.append(
            {
                "minute": minute(number),
                "mentions": sum(topics.values()),
                "topics_sketch": bytes(sketch.serialize()),
            }
        )
    return pa.Table.from_pylist(rows)


def take(store: DeltaRsStore, number: int, counts: dict[int, dict[str, int]]) -> list[tuple[int, str, int]]:
    """The tables after a batch: (window's end, topic, messages) of each trend."""
    commit, incoming = Commit("test", number), batch(counts)
    count(store, incoming, commit)
    rank(store, incoming["minute"].to_pylist(), DEFINITION, commit)
    base = int(NOON.timestamp()) // 60
    return sorted((trend.end - base, trend.topic, trend.messages) for trend in read_trends(store))


def test_topics_of_a_message_count_once_in_lower_case(spark: SparkSession) -> None:
    messages = [
        ("#Rain and #rain, #snow!", minute(0) + timedelta(seconds=59)),
        ("no topic", minute(0)),
        ("#rain", minute(1)),
    ]
    rows = spark.createDataFrame(messages, "text string, event_time timestamp")
    actual = {
        row["minute"]: (row["mentions"], frequent_strings_sketch.deserialize(row["topics_sketch"]))
        for row in per_minute(mentions(rows), 100).toArrow().to_pylist()
    }
    assert {time: mentioned for time, (mentioned, _) in actual.items()} == {minute(0): 2, minute(1): 1}
    assert [actual[minute(0)][1].get_estimate(topic) for topic in ("rain", "snow", "Rain")] == [1, 1, 0]


def test_a_late_message_revises_the_windows_it_bears_on(store: DeltaRsStore) -> None:
    calm = {number: {"usual": 4} for number in range(5)}
    assert take(store, 0, calm) == []
    risen = take(store, 1, {12: {"news": 10, "usual": 4}})
    assert risen == [(end, "news", 10) for end in range(13, 23)]
    # That it was as frequent an hour before shows only now.
    assert take(store, 2, {number: {"news": 40} for number in range(5)}) == []
    # Twice as often as that is news again; the window to minute 13 begins at minute 3.
    assert take(store, 3, {12: {"news": 790}})[0] == (13, "news", 80 + 800)


def test_a_repeated_batch_changes_nothing(store: DeltaRsStore) -> None:
    take(store, 0, {number: {"usual": 4} for number in range(5)})
    first = take(store, 1, {12: {"news": 10}})
    versions = store.version(MINUTES), store.version(TRENDS)
    assert take(store, 1, {12: {"news": 10}}) == first
    assert (store.version(MINUTES), store.version(TRENDS)) == versions


def test_a_batch_interrupted_between_the_tables_is_made_whole(store: DeltaRsStore) -> None:
    take(store, 0, {number: {"usual": 4} for number in range(5)})
    count(store, batch({12: {"news": 10}}), Commit("test", 1))
    assert take(store, 1, {12: {"news": 10}}) == [(end, "news", 10) for end in range(13, 23)]


def test_a_message_from_far_away_does_not_make_all_between_be_read(store: DeltaRsStore) -> None:
    calm = {number: {"usual": 4} for number in range(5)}
    far = 40 * 365 * 24 * 60
    assert take(store, 0, {**calm, far: {"lonely": 50}, 12: {"news": 10}}) == [
        (end, "news", 10) for end in range(13, 23)
    ]
