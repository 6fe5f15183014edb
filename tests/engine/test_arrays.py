"""A vectorized function gives the same columns in Spark's workers and in the driver; strings are split correctly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tidemark.engine.arrays import (
    Arrays,
    Parts,
    Vectorized,
    flags_of,
    sliced,
    spread,
    where,
    with_beginnings,
)


def _described(arrays: Arrays) -> Arrays:
    return {"n": pc.add(arrays["n"], 1), "even": pc.equal(pc.bit_wise_and(arrays["n"], 1), 0)}


EXAMPLE = Vectorized(("n",), "n bigint, even boolean", _described)


@pytest.mark.parametrize("rows", [0, 1, 70_000])
def test_the_same_columns_here_and_in_spark(rows: int, spark: SparkSession) -> None:
    frame = spark.range(rows).selectExpr("id", "id AS n")
    fetched = frame.toArrow()
    here = EXAMPLE.add(fetched)
    there = EXAMPLE.to_frame(frame).toArrow()
    assert here.column_names == there.column_names == ["id", "n", "even"]
    assert here.to_pydict() == there.sort_by("id").to_pydict()
    assert here["n"].to_pylist() == list(range(1, rows + 1))


def test_pieces_of_strings() -> None:
    text = pa.array(["a b c", "", None, "d"])
    every, first, last = Parts.of(text, " "), Parts.of(text, " ", 1), Parts.of(text, " ", 1, last=True)
    assert every.count.tolist() == [3, 1, 0, 1]
    assert every.at(1).to_pylist() == ["b", None, None, None]
    assert every.at(every.count - 1).to_pylist() == ["c", "", None, "d"]
    assert first.at(1).to_pylist() == ["b c", None, None, None]
    assert last.at(0).to_pylist() == ["a b", "", None, "d"]
    assert Parts.of(pa.array([], pa.string()), " ").at(0).to_pylist() == []


def test_where_and_flags() -> None:
    flags = flags_of(pa.array([True, None, False]))
    assert flags.tolist() == [True, False, False]
    values = pa.array(["a", "b", "c"])
    assert where(flags, values, None).to_pylist() == ["a", None, None]
    assert where(flags, values, "x").to_pylist() == ["a", "x", "x"]
    assert where(flags, values, pa.array(["d", None, "f"])).to_pylist() == ["a", None, "f"]
    assert where(np.ones(3, bool), values, None) is values


def test_values_are_spread_over_rows() -> None:
    column = spread(pa.array(["a", "b", "a", None]), pa.array([0, 2, 3, None, 1]))
    assert column.to_pylist() == ["a", "a", None, None, "b"]
    assert column.dictionary.to_pylist() == ["a", "b"]


@given(st.lists(st.tuples(st.binary(max_size=5), st.integers(0, 5), st.integers(0, 5))))
def test_parts_of_strings(drawn: list[tuple[bytes, int, int]]) -> None:
    rows = [(text, min(a, b, len(text)), min(max(a, b), len(text))) for text, a, b in drawn]
    text = pa.array([b"in front", *(text for text, *_ in rows)], pa.binary())[1:]
    first, last = (np.array([row[place] for row in rows], np.int32) for place in (1, 2))
    assert sliced(text, first, last).to_pylist() == [text[first:last] for text, first, last in rows]
    changed = with_beginnings(text, first, pa.array([b"new" * len(text) for text, *_ in rows], pa.binary()))
    assert changed.to_pylist() == [b"new" * len(text) + text[first:] for text, first, _ in rows]
