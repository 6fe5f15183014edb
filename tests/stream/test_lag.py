from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import table
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.table import Column, Table
from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.lag import TopicLag, table_lag, table_rows, topic_rows

NUMBERS = Table("silver.numbers", "", "append", ("n",), (Column("n", "long", ""),), "", "")


def test_the_rows_of_a_table_that_a_stream_has_not_read(spark: SparkSession, tmp_path: Path) -> None:
    lakehouse, checkpoint = Lakehouse("", str(tmp_path)), tmp_path / "checkpoint"
    source, store = Path(lakehouse.path(NUMBERS)), DeltaRsStore(lakehouse)

    def drain() -> None:
        stream = spark.readStream.format("delta").load(str(source)).writeStream
        query = (
            stream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    def lag() -> int | None:
        return table_lag(partial(store.rows_since, NUMBERS), checkpoint)

    write_deltalake(source, table({"n": range(5)}))
    assert lag() == 5
    drain()
    assert lag() == 0
    write_deltalake(source, table({"n": range(3)}), mode="append")
    write_deltalake(source, table({"n": range(4)}), mode="append")
    assert lag() == 7
    drain()
    assert lag() == 0
    DeltaTable(source).optimize.compact()
    assert lag() == 0, "compaction brings no rows"


@pytest.mark.parametrize("offset", ["", "v1\n{}", "v1\n{}\n{", "v1\n{}\n[]"])
def test_a_damaged_checkpoint_has_no_lag_to_tell(offset: str, tmp_path: Path) -> None:
    for folder, text in (("commits", "v1\n{}"), ("offsets", offset)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(text, encoding="utf-8")
    assert table_lag(lambda version: version, tmp_path) is None


def test_the_rows_that_a_batch_spans(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for number, offset in enumerate(('{"log": {"0": 5}}', '{"log": {"0": 9, "1": 3}}')):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offset}", encoding="utf-8")
    assert topic_rows("log", tmp_path, 0) is None, "where it begins is not known"
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('\0v1\n{"log": {"0": 2}}', encoding="utf-8")
    assert topic_rows("log", tmp_path, 0) == 3
    assert topic_rows("log", tmp_path, 1) == 4 + 3
    assert topic_rows("log", tmp_path, 2) is None
    assert topic_rows("other", tmp_path, 0) is None
    (tmp_path / "offsets" / "2").write_text('v1\n{}\n{"log": {"0": 8, "1": 3}}', encoding="utf-8")
    assert topic_rows("log", tmp_path, 2) is None, "less than was read: Spark reports the loss"


def test_a_broker_that_is_away_has_no_lag_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_TRY_SECONDS", 0.2)
    assert TopicLag(KafkaSettings("127.0.0.1:1"))(tmp_path) is None


def test_a_batch_of_a_table_has_no_more_rows_than_its_limit(spark: SparkSession, tmp_path: Path) -> None:
    lakehouse, checkpoint = Lakehouse("", str(tmp_path)), tmp_path / "checkpoint"
    source = Path(lakehouse.path(NUMBERS))
    for rows in (40, 7, 7, 7):  # what is there before the stream begins
        write_deltalake(source, table({"n": range(rows)}), mode="append")
    batches: dict[int, tuple[int, int | None]] = {}

    def look(batch: DataFrame, number: int) -> None:
        batches[number] = batch.count(), table_rows(lakehouse, NUMBERS, checkpoint, number)

    def drain() -> None:
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 2).load(str(source))
        writer = stream.writeStream.foreachBatch(look).option("checkpointLocation", str(checkpoint))
        assert writer.trigger(availableNow=True).start().awaitTermination(60)

    drain()
    assert sum(rows for rows, _ in batches.values()) == 61
    before = len(batches)
    assert before == 2
    for rows in (5, 6, 9):
        write_deltalake(source, table({"n": range(rows)}), mode="append")
    drain()
    assert sum(rows for rows, _ in batches.values()) == 81 and len(batches) > before
    assert all(limit is not None and rows <= limit < 60 for rows, limit in batches.values()), batches
    assert table_rows(lakehouse, NUMBERS, checkpoint, 99) is None
