"""Tables on a cluster or in Unity Catalog, through Spark's Delta writer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import TableError
from tidemark.lakehouse import Lakehouse
from tidemark.store.base import Commit, Condition, Where
from tidemark.table import Change, Table

_DELETE = "_delete"


class SparkStore:
    """The tables of a lakehouse on any file system that Spark reaches, or of a catalog schema."""

    def __init__(self, spark: SparkSession, lakehouse: Lakehouse) -> None:
        self._spark = spark
        self._lakehouse = lakehouse
        self._sessions: dict[str, SparkSession] = {}

    def ensure(self, table: Table) -> None:
        name = self._lakehouse.sql_name(table)
        builder = DeltaTable.createIfNotExists(self._spark).comment(table.about).addColumns(table.schema)
        for key, value in table.properties.items():
            builder = builder.property(key, value)
        try:
            if self._lakehouse.in_catalog:
                builder.tableName(name).execute()
            else:
                builder.location(self._lakehouse.path(table)).execute()
            there = {field.name for field in self._spark.table(name).schema}
            for column in table.schema:
                if column.name not in there:
                    kind = column.dataType.simpleString()
                    self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS (`{column.name}` {kind})")
        except AnalysisException as error:
            raise TableError(
                f"table {name} cannot be opened: {error.getCondition() or str(error).splitlines()[0]}",
                "See docs/operations.md, 'A damaged table'.",
            ) from error

    def committed(self, table: Table, writer: str) -> int:
        """Unknown here: -1. Delta itself skips an append or a merge whose number it already has."""
        return -1

    def read(self, table: Table, where: Where = (), columns: Sequence[str] | None = None) -> pa.Table:
        wanted = list(columns or table.column_names)
        frame = self._spark.table(self._lakehouse.sql_name(table))
        if where:
            groups = [reduce(Column.__and__, [_condition(c) for c in group]) for group in where]
            frame = frame.where(reduce(Column.__or__, groups))
        rows: pa.Table = frame.select(*wanted).toArrow()
        return rows.cast(pa.schema([table.arrow_schema.field(name) for name in wanted]))

    def append(self, table: Table, rows: DataFrame, commit: Commit) -> None:
        writer = (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", commit.writer)
            .option("txnVersion", commit.number)
        )
        if self._lakehouse.in_catalog:
            writer.saveAsTable(self._lakehouse.sql_name(table))
        else:
            writer.save(self._lakehouse.path(table))

    def append_arrow(self, table: Table, rows: pa.Table, commit: Commit | None = None) -> None:
        frame = self._spark.createDataFrame(rows.select(table.column_names), table.schema)
        if commit is not None:
            self.append(table, frame, commit)
        elif self._lakehouse.in_catalog:
            frame.write.format("delta").mode("append").saveAsTable(self._lakehouse.sql_name(table))
        else:
            frame.write.format("delta").mode("append").save(self._lakehouse.path(table))

    def upsert(self, table: Table, change: Change, commit: Commit) -> None:
        spark = self._session_of(table)
        source = _source(spark, table, change)
        same_key = " AND ".join(f"t.{name} = s.{name}" for name in table.key)
        values: dict[str, str | Column] = {name: f"s.{name}" for name in table.column_names}
        merge = (
            self._delta(spark, table).alias("t").merge(source.alias("s"), same_key)
            .whenMatchedDelete(f"s.{_DELETE}")
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(f"NOT s.{_DELETE}", values)
        )  # fmt: skip
        # MERGE takes its application transaction from the session only.
        settings = {
            "spark.databricks.delta.write.txnAppId": commit.writer,
            "spark.databricks.delta.write.txnVersion": str(commit.number),
        }
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            merge.execute()
        finally:
            for key in settings:
                spark.conf.unset(key)

    def _session_of(self, table: Table) -> SparkSession:
        """A session of the table's own: tables are merged side by side, and settings are per session."""
        return self._sessions.setdefault(table.name, self._spark.newSession())

    def _delta(self, spark: SparkSession, table: Table) -> DeltaTable:
        if self._lakehouse.in_catalog:
            return DeltaTable.forName(spark, self._lakehouse.sql_name(table))
        return DeltaTable.forPath(spark, self._lakehouse.path(table))


def _source(spark: SparkSession, table: Table, change: Change) -> DataFrame:
    rows = spark.createDataFrame(change.rows.select(table.column_names), table.schema)
    rows = rows.withColumn(_DELETE, F.lit(False))
    if change.deleted is None or change.deleted.num_rows == 0:
        return rows
    gone = spark.createDataFrame(change.deleted.select([*table.key]))
    return rows.unionByName(gone.withColumn(_DELETE, F.lit(True)), allowMissingColumns=True)


def _condition(condition: Condition) -> Column:
    name, operator, value = condition
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
