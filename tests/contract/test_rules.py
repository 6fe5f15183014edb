"""Every declared condition says the same in the stream, as an Arrow expression, and over a table, as Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.acero as acero
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze import access_log
from silver import requests
from tidemark import pipeline
from tidemark.contract.expression import Expression, column
from tidemark.parse.columns import KNOWN
from tidemark.parse.detect import FIELDS
from tidemark.parse.formats import FORMATS
from tidemark.parse.values import MOST_RESPONSE_BYTES

# A failure is shown as found: shrinking it would take a Spark job a step.
FEW = settings(max_examples=8, deadline=None, database=None, phases=[Phase.generate])
DAY = datetime(2026, 11, 22, tzinfo=UTC)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type on both sides of what the rules ask for, and NULL."""
    if pa.types.is_boolean(kind):
        strategy: st.SearchStrategy[Any] = st.booleans()
    elif pa.types.is_integer(kind):
        edges = st.sampled_from([-1, 0, 1, 2, 99, 100, 399, 400, 999, 1000])
        near = st.sampled_from([MOST_RESPONSE_BYTES, MOST_RESPONSE_BYTES + 1])
        strategy = edges | st.integers(0, 5) | (near if kind.bit_width == 64 else st.nothing())
    elif pa.types.is_timestamp(kind):
        windows = st.sampled_from([0, 60, 300, 3600, 86_400, 90, 7]).map(lambda s: DAY + timedelta(seconds=s))
        old = st.sampled_from([-1, 0, -60, -300]).map(
            lambda s: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=s)
        )
        off = st.sampled_from([1, 999_999]).map(lambda us: DAY + timedelta(microseconds=us))
        last = st.sampled_from(
            [datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC), datetime(9999, 1, 1, tzinfo=UTC)]
        )
        strategy = windows | off | old | last
    elif pa.types.is_binary(kind):
        strategy = st.sampled_from([b"", b"x", "ü".encode(), b"\x00\xff"])
    elif pa.types.is_list(kind):
        strategy = st.lists(st.sampled_from(["malformed", None]), max_size=2)
    elif pa.types.is_floating(kind):
        strategy = st.sampled_from([-1.0, 0.0, 0.5])
    else:
        texts = ["", "DE", "ZZ", "de", "DEU", "DE\n", "\nDE", "DÉ", "GET", "POST", "it's", "a\\b", *FORMATS]
        strategy = st.sampled_from(texts) | st.text(max_size=3)
    return st.none() | strategy


def tables(schema: pa.Schema, conditions: Mapping[str, Expression]) -> st.SearchStrategy[pa.Table]:
    """Rows with the columns that the conditions read."""
    names = sorted(frozenset[str]().union(*(each.columns for each in conditions.values())))
    read = pa.schema([schema.field(name) for name in names])
    row = st.fixed_dictionaries({field.name: values(field.type) for field in read})
    return st.lists(row, min_size=1, max_size=40).map(lambda rows: pa.Table.from_pylist(rows, read))


def declared() -> Mapping[str, tuple[pa.Schema, dict[str, Expression]]]:
    """The conditions on each table's rows, and those on parsed lines, with the columns that they may read."""
    by_table = {
        table.name: (table.arrow_schema, {each.name: each.holds for each in table.expectations})
        for table in pipeline.TABLES
        if table.expectations
    }
    kinds = {"boolean": pa.bool_(), "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(),
             "timestamp": pa.timestamp("us", "UTC")}  # fmt: skip
    names = [each.split() for each in f"{FIELDS}, {KNOWN}, site_ok boolean".split(", ")]
    parsed = [pa.field(name, kinds[kind]) for name, kind in names]
    lines = {f.name: f for f in [*access_log.TABLE.arrow_schema, *parsed]}
    rejecting = {
        table.name: {rule.name: rule.accepts for rule in table.rejecting}
        for table in pipeline.TABLES
        if table.rejecting
    }
    assert list(rejecting) == ["silver.requests"]
    return {**by_table, "parsed lines": (pa.schema(lines.values()), rejecting["silver.requests"])}


DECLARED = declared()


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_sql_and_arrow_agree_on_every_declared_condition(spark: SparkSession, name: str) -> None:
    schema, conditions = DECLARED[name]

    @FEW
    @given(tables(schema, conditions))
    def agree(rows: pa.Table) -> None:
        assert in_sql(spark, rows, conditions) == in_arrow(rows, conditions)

    agree()


def test_sql_and_arrow_agree_on_every_operator(spark: SparkSession) -> None:
    a, b, c, t, on = column("a"), column("b"), column("c"), column("t"), column("on")
    conditions = {
        "sums": a + b - (a - b) == b + b,
        "in": ~c.isin(["DE", "it's", "a\\b"]) | (c != "DE\n"),
        "remainder": (a % 7 == b % 3) | (t.micros() % 60_000_000 < 0),
        "null": (a.is_null() & on.is_valid()) | ~(on & (b > a)),
        "time": (t + timedelta(days=1) >= DAY) & (t < DAY + timedelta(seconds=1)),
        "between": ~a.between(0, 99) & (c.length() <= 2),
        "precedence": ~(on | (a < b)) & (on | (b <= 1)),
        "text": c.matches("[A-Z]{2}|[a-z]+"),
    }
    schema = pa.schema({"a": pa.int64(), "b": pa.int32(), "c": pa.string(), "on": pa.bool_(),
                        "t": pa.timestamp("us", "UTC")})  # fmt: skip

    @FEW
    @given(tables(schema, conditions))
    def agree(rows: pa.Table) -> None:
        assert in_sql(spark, rows, conditions) == in_arrow(rows, conditions)

    agree()


def test_and_and_or_of_python_are_refused() -> None:
    with pytest.raises(TypeError, match="use & for and"):
        bool(column("a") == 1)


def test_a_rejecting_rule_is_an_expectation_where_the_table_keeps_its_columns() -> None:
    table = requests.TABLE
    both = {rule.name: rule.holds for rule in table.rejecting} | {e.name: e.holds for e in table.expects}
    assert {"invalid_time", "status_in_range", "size_in_range"} <= {e.name for e in table.expectations}
    assert not {"malformed", "invalid_status"} & {e.name for e in table.expectations}
    assert all(each.holds is both[each.name] for each in table.expectations)


def in_sql(spark: SparkSession, rows: pa.Table, conditions: Mapping[str, Expression]) -> list[dict[str, Any]]:
    result = spark.createDataFrame(rows).select(
        *(F.expr(e.sql).alias(name) for name, e in conditions.items())
    )
    return result.toArrow().to_pylist()  # type: ignore[no-any-return]


def in_arrow(rows: pa.Table, conditions: Mapping[str, Expression]) -> list[dict[str, Any]]:
    project = acero.ProjectNodeOptions([e.arrow for e in conditions.values()], list(conditions))
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    return acero.Declaration("project", project, [source]).to_table(use_threads=False).to_pylist()  # type: ignore[no-any-return]
