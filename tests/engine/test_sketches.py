"""Sketches made and united in arrays are those of the library, byte for byte."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from datasketches import compact_theta_sketch, theta_union, update_theta_sketch
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.engine.sketches import (
    LG_ENTRIES,
    MOST_ENTRIES,
    of_bytes,
    of_lists,
    of_values,
    unite,
)
from tidemark.figures.hashes import hash_of


def of_library(values: list[str]) -> bytes:
    sketch = update_theta_sketch(LG_ENTRIES)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def some_values(number: int, seed: int = 1) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices("abc äß€", k=chance.randrange(40))) for _ in range(number)]


@pytest.mark.parametrize(
    "values", [[], [""], ["a"], ["a", "a"], ["a", "b"], some_values(2_000), ["x" * n for n in range(100)]]
)
def test_the_bytes_are_those_of_the_library(values: list[str]) -> None:
    groups = np.zeros(len(values), np.int64)
    result = of_values(groups, pa.array(values, pa.string()), 1)
    assert result.to_bytes().to_pylist() == [of_library(values)]
    assert result.counts().to_pylist() == [len({value for value in values if value})]


def test_groups_are_apart_and_nulls_count_nowhere() -> None:
    values = [None if n % 7 == 0 else f"{n % 50}" for n in range(1_000)]
    groups = np.arange(1_000) % 3
    result = of_values(groups, pa.array(values).slice(0), 4)
    expected = [
        of_library([v for v, g in zip(values, groups, strict=True) if g == group and v]) for group in range(4)
    ]
    assert result.to_bytes().to_pylist() == expected


def test_a_slice_is_hashed_as_a_whole_column_is() -> None:
    values = pa.array(["a", None, "bb", "", "€"])
    assert hash_of(values.slice(1, 3)).to_pylist() == hash_of(values).to_pylist()[1:4]


def test_lists_and_bytes_come_back() -> None:
    result = of_values(np.arange(90) % 5, pa.array(some_values(90)), 6)
    again = of_bytes(pa.chunked_array([result.to_bytes().slice(0, 2), result.to_bytes().slice(2)]))
    assert again.to_bytes().equals(result.to_bytes())
    rows, hashes, theta = of_lists(result.to_lists(), pa.array(result.theta))
    assert unite(rows, hashes, theta).to_bytes().equals(result.to_bytes())


def test_spark_s_sketches_are_read(spark: SparkSession) -> None:
    rows = spark.range(5_000).selectExpr("id % 3 AS g", "string(id % 700) AS v").groupBy("g")
    of_spark = rows.agg(
        F.theta_sketch_agg("v", LG_ENTRIES).alias("s"), F.count_distinct("v").alias("n")
    ).toArrow()
    result = of_bytes(of_spark["s"])
    assert result.counts().to_pylist() == of_spark["n"].to_pylist()
    assert result.hashes[result.offsets[0] : result.offsets[1]].tolist() == sorted(
        compact_theta_sketch.deserialize(of_spark["s"][0].as_py()).get_hashes()
        if hasattr(compact_theta_sketch, "get_hashes")
        else list(compact_theta_sketch.deserialize(of_spark["s"][0].as_py()))
    )


def test_beyond_a_million_any_split_gives_the_same_estimate() -> None:
    number = 1_500_000
    values = pa.array(np.char.add("v", np.arange(number).astype(str)))
    one = of_values(np.zeros(number, np.int64), values, 1).limited()
    halves = of_values((np.arange(number) % 2), values, 2)
    again = unite(np.zeros(len(halves.hashes), np.int64), halves.hashes, one.theta[:1].copy()).limited()
    assert len(one.hashes) == MOST_ENTRIES and again.to_bytes().equals(one.to_bytes())
    [count], [sketch] = one.counts().to_pylist(), one.to_bytes().to_pylist()
    assert abs(count / number - 1) < 0.005
    union = theta_union(LG_ENTRIES)
    union.update(compact_theta_sketch.deserialize(sketch))
    assert round(union.get_result().get_estimate()) == count
