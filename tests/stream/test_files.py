"""A batch of a table's files, read here, is what Spark makes of it; and Spark reads what is no batch of whole files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.table import Column, Table
from tidemark.store.directories import Directories
from tidemark.stream import files
from tidemark.stream.files import TableFiles, scanned

TABLE = Table(
    name="silver.things",
    about="Things.",
    kind="append",
    key=("id",),
    time="seen",
    reads="",
    columns=(
        Column("id", "long", "Number."),
        Column("seen", "timestamp", "When."),
        Column("word", "string", "What."),
        Column("later", "int", "A column of later files."),
    ),
)
COLUMNS = ("seen", "word", "later")


def stream(
    spark: SparkSession, path: Path, see: Callable[[DataFrame], object], to: Callable[[DataFrame], DataFrame]
) -> list[object]:
    """What `see` makes of each batch of a query over the table."""
    seen: list[object] = []
    query = (
        to(spark.readStream.format("delta").option("maxFilesPerTrigger", 3).load(str(path)))
        .writeStream.foreachBatch(lambda batch, _: seen.append(see(batch)))
        .option("checkpointLocation", str(path.parent / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def rows(table: pa.Table | None) -> list[tuple[object, ...]]:
    assert table is not None
    return sorted(tuple(map(str, row.values())) for row in table.to_pylist())


@pytest.fixture(scope="module")
def written_things(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of Spark's writer and of delta-rs, older ones without the column `later`."""
    path = tmp_path_factory.mktemp("things") / "made"
    generated = (
        "id",
        "timestamp_micros(1700000000000000 + id * 1001) AS seen",
        "concat('wörd ', id % 7) AS word",
    )
    spark.range(3_000).selectExpr(*generated).repartition(2).write.format("delta").save(str(path))
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN later INT")
    more = spark.range(3_000, 4_000).selectExpr(*generated, "int(nullif(id, 3500)) AS later").toArrow()
    for start in range(0, 1_000, 250):
        write_deltalake(path, more.slice(start, 250), mode="append")
    return path


@pytest.fixture
def things(written_things: Path, tmp_path: Path) -> Path:
    """A copy of that table, with a space in its path."""
    return shutil.copytree(written_things, tmp_path / "t x é")


def test_a_batch_read_here_is_the_one_that_spark_reads(
    spark: SparkSession, things: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = TableFiles(TABLE, COLUMNS, Directories("/")).fetch

    def both(batch: DataFrame) -> tuple[pa.Table, pa.Table]:
        by_spark = batch.toArrow()
        spread = TableFiles(TABLE, COLUMNS, Directories("/")).spread(batch)
        assert rows(spread.rows.toArrow()) == rows(by_spark)
        half = TableFiles(TABLE, COLUMNS, Directories("/")).spread(batch, sparing=True)
        assert half.frame.rdd.getNumPartitions() == max(1, spark.sparkContext.defaultParallelism // 2)
        assert rows(half.rows.toArrow()) == rows(by_spark)
        monkeypatch.setattr(DataFrame, "toArrow", None)  # from here on it is not asked
        local = fetch(batch)
        monkeypatch.undo()
        return local, by_spark

    batches = stream(spark, things, both, lambda frame: frame.select(*COLUMNS))

    assert len(batches) == 2
    for local, by_spark in batches:  # type: ignore[misc]
        assert local.schema.equals(by_spark.schema)
        assert rows(local) == rows(by_spark)
    assert sum(local.num_rows for local, _ in batches) == 4_000  # type: ignore[misc]


def test_rows_that_take_too_much_are_not_fetched(
    spark: SparkSession, things: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 10_000)

    assert stream(
        spark, things, TableFiles(TABLE, COLUMNS, Directories("/")).fetch, lambda f: f.select(*COLUMNS)
    ) == [
        None,
        None,
    ]


def test_a_batch_that_is_not_all_rows_of_files_is_spark_s(spark: SparkSession, things: Path) -> None:
    spark.sql(f"ALTER TABLE delta.`{things}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{things}` WHERE id IN (5, 2000)")
    fetch = TableFiles(TABLE, COLUMNS, Directories("/")).fetch

    batches = stream(spark, things, lambda b: (len(scanned(b)), fetch(b)), lambda f: f.select(*COLUMNS))

    assert 0 in [count for count, _ in batches]  # type: ignore[misc]
    assert sum(table.num_rows for _, table in batches) == 3_998  # type: ignore[misc]


def test_other_plans_have_no_files(spark: SparkSession, things: Path) -> None:
    assert scanned(spark.range(3)) == []
    assert scanned(spark.read.format("delta").load(str(things)).groupBy("word").count()) == []
    assert stream(spark, things, scanned, lambda frame: frame.repartition(2)) == [[], []]


def test_a_file_that_is_gone_is_spark_s_error(spark: SparkSession, things: Path) -> None:
    fetch = TableFiles(TABLE, COLUMNS, Directories("/")).fetch

    def lose(batch: DataFrame) -> pa.Table | None:
        Path(scanned(batch)[0]).unlink()
        return fetch(batch)

    with pytest.raises(PySparkException, match=r"\.parquet"):
        stream(spark, things, lose, lambda frame: frame.select(*COLUMNS))
