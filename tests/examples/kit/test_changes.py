"""What a query that follows a table sees of its changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from examples.kit.changes import FollowedTable, changes
from examples.kit.job import Sources
from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Column
from tidemark.home import Home
from tidemark.local.process import wait_until
from tidemark.operate.upkeep_schedule import keep
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of as lakehouse_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = FollowedTable(
    name="test.followed",
    about="A table.",
    kind="upsert",
    key=("name",),
    columns=(
        Column("name", "string", "Key."),
        Column("value", "long", "Value."),
        Column("updated_at", "timestamp", "When."),
    ),
    time="",
    reads="",
)


def rows(values: Mapping[str, int]) -> pa.Table:
    items = [{"name": name, "value": value, "updated_at": NOW} for name, value in values.items()]
    return pa.Table.from_pylist(items, TABLE.arrow_schema)


def test_upkeep_maintains_such_a_table(tmp_path: Path) -> None:
    settings = Settings.of(
        home=tmp_path, maintain_interval_seconds=0.05, version_retention_seconds=1, retention_days=""
    )
    lakehouse = lakehouse_of(settings)
    DeltaRsStore(lakehouse).ensure(TABLE)
    troubles: list[str] = []
    stop = threading.Event()
    side = threading.Thread(target=keep(Home.of(settings, [TABLE]), troubles.append), args=(stop,))
    side.start()
    try:
        assert wait_until(lambda: len(troubles) >= 1, 60)
    finally:
        stop.set()
        side.join()
    assert set(troubles) == {""}
    properties = DeltaTable(lakehouse.path(TABLE)).metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 1 seconds"


def test_rows_that_are_there_come_first_then_each_change_once(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings.of(home=tmp_path)
    store = DeltaRsStore(lakehouse_of(settings))
    store.ensure(TABLE)
    followed = changes(Sources(spark, settings, store), TABLE)

    def seen() -> list[tuple[str, str, int]]:
        result: list[tuple[str, str, int]] = []

        def take(batch: DataFrame, _: int) -> None:
            result.extend((row._change_type, row.name, row.value) for row in batch.collect())

        query = (
            followed.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        return sorted(result)

    store.upsert(TABLE, Change(rows({"a": 1, "b": 1})), Commit("test", 0))
    assert seen() == [("insert", "a", 1), ("insert", "b", 1)]
    store.upsert(TABLE, Change(rows({"a": 2, "c": 1}), rows({"b": 1})), Commit("test", 1))
    assert seen() == [
        ("delete", "b", 1),
        ("insert", "c", 1),
        ("update_postimage", "a", 2),
        ("update_preimage", "a", 1),
    ]
    assert seen() == []
