"""Schemas, changes, conditions and commits as Spark has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from tidemark.contract.aggregation import time_ranges
from tidemark.contract.store import Commit, Condition
from tidemark.contract.table import Change, Table

DELETE = "_delete"
# The setting of a session that gives its commits their metadata.
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def spark_schema(table: Table) -> StructType:
    """The schema of a table's rows, with the columns' descriptions."""
    columns = zip(table.arrow_schema, table.columns, strict=True)
    return StructType(
        [
            StructField(arrow.name, from_arrow_type(arrow.type), True, {"comment": column.meaning})
            for arrow, column in columns
        ]
    )


def source_of(spark: SparkSession, table: Table, change: Change) -> DataFrame | None:
    """Rows to write and keys to delete as one frame with a flag column; None if there are neither."""
    frames = []
    if change.rows.num_rows:
        rows = spark.createDataFrame(change.rows.select(table.column_names), spark_schema(table))
        frames.append(rows.withColumn(DELETE, F.lit(False)))
    if change.deleted is not None and change.deleted.num_rows:
        gone = spark.createDataFrame(change.deleted.select([*table.key]))
        frames.append(gone.withColumn(DELETE, F.lit(True)))
    if len(frames) == 1 and not change.rows.num_rows:
        empty = spark.createDataFrame([], spark_schema(table)).withColumn(DELETE, F.lit(False))
        frames.insert(0, empty)
    if not frames:
        return None
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def bounds(table: Table, change: Change) -> Column:
    """The time ranges of a merge as literals, by which whole files are skipped without reading them."""
    parts = [change.rows] if change.deleted is None else [change.rows, change.deleted]
    chunks = [chunk for part in parts if table.time for chunk in part[table.time].chunks]
    ranges = time_ranges(pa.chunked_array(chunks)) if chunks else []
    conditions = [F.col(f"t.{table.time}").between(F.lit(first), F.lit(last)) for first, last in ranges]
    return reduce(Column.__or__, conditions) if conditions else F.lit(True)


def condition(wanted: Condition) -> Column:
    """A condition as an expression of Spark."""
    name, operator, value = wanted
    column = F.col(name)
    comparisons: dict[str, Any] = {
        "=": column.__eq__,
        "<": column.__lt__,
        "<=": column.__le__,
        ">": column.__gt__,
        ">=": column.__ge__,
        "in": column.isin,
    }
    result: Column = comparisons[operator](value)
    return result


def saying(commit: Commit) -> str:
    """The metadata of a commit, which the table's history shows."""
    return json.dumps({"writer": commit.writer, "number": commit.number, "also": commit.also})


def commit_of(metadata: str | None) -> Commit | None:
    """The commit of such metadata; None if another program committed."""
    try:
        entry = json.loads(metadata or "")
        return Commit(entry["writer"], entry["number"], tuple(map(tuple, entry.get("also", ()))))
    except (ValueError, TypeError, LookupError):
        return None


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets these settings of the session for the statements within."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
