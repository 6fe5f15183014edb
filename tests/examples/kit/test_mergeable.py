"""Rows that add up: sums and exact uniques, however the input was split."""

from __future__ import annotations

import pyarrow as pa
from datasketches import compact_theta_sketch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.kit.mergeable import count, mergeable, sketch_of, unique_count, unique_sketch, unite

Fact = tuple[str, str]  # key, visitor


def partial(facts: list[Fact]) -> pa.Table:
    keys = sorted({key for key, _ in facts})
    visitors = {key: [visitor for k, visitor in facts if k == key] for key in keys}
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "requests": pa.array([len(visitors[key]) for key in keys], pa.int64()),
            "visitors": pa.array([len(set(visitors[key])) for key in keys], pa.int64()),
            "sketch": pa.array([sketch_of(visitors[key]) for key in keys], pa.binary()),
        }
    )


FACTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([f"v{n}" for n in range(12)])), max_size=30
)


@settings(max_examples=150, deadline=None)
@given(batches=st.lists(FACTS, max_size=6))
def test_any_split_gives_the_exact_counts(batches: list[list[Fact]]) -> None:
    combine = mergeable(["key"], ["requests"], {"visitors": "sketch"})
    table: dict[str, dict[str, object]] = {}
    for batch in batches:
        existing = pa.Table.from_pylist(list(table.values()), partial([]).schema)
        change = combine(existing, partial(batch))
        assert change.deleted is None and "updated_at" in change.rows.column_names
        assert sorted(change.rows["key"].to_pylist()) == sorted({key for key, _ in batch})
        table |= {row["key"]: row for row in change.rows.drop_columns("updated_at").to_pylist()}
    facts = [fact for batch in batches for fact in batch]
    assert {key: (row["requests"], row["visitors"]) for key, row in table.items()} == {
        key: (sum(k == key for k, _ in facts), len({v for k, v in facts if k == key})) for key, _ in facts
    }


def test_uniques_are_exact_up_to_a_million() -> None:
    halves = [sketch_of(map(str, range(low, low + 600_000))) for low in (0, 400_000)]
    assert count(unite(halves)) == 1_000_000


def test_spark_and_datasketches_read_each_others_bytes(spark: SparkSession) -> None:
    frame = spark.range(5000).select(
        (F.col("id") % 2).alias("key"), (F.col("id") % 700).cast("string").alias("visitor")
    )
    sketches = frame.groupBy("key").agg(unique_sketch(F.col("visitor")).alias("sketch"))
    rows = sketches.withColumn("visitors", unique_count(F.col("sketch"))).orderBy("key").collect()
    assert [row["visitors"] for row in rows] == [350, 350]
    spark_bytes = [bytes(row["sketch"]) for row in rows]
    assert [count(sketch) for sketch in spark_bytes] == [350, 350]

    # The same values have the same hashes: 100 of them are known, 50 new.
    ours = sketch_of([*map(str, range(100)), *(f"new{n}" for n in range(50))])
    united = unite([*spark_bytes, ours])
    assert count(united) == 750
    [back] = (
        spark.createDataFrame([(bytearray(united),)], "sketch binary")
        .select(unique_count(F.col("sketch")))
        .first() or ()
    )  # fmt: skip
    assert back == 750


def test_a_sketch_of_nothing_is_one(spark: SparkSession) -> None:
    row = spark.range(3).agg(unique_sketch(F.lit(None).cast("string")).alias("sketch")).first()
    assert row is not None
    empty = bytes(row["sketch"])
    assert compact_theta_sketch.deserialize(empty).is_empty()
    assert count(unite([empty, empty])) == 0
    assert count(unite([empty, sketch_of(["a"])])) == 1
