"""Tables in Unity Catalog, through Spark's Delta writer, which also reaches every path that Hadoop reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from tidemark.contract.measure import Scan
from tidemark.contract.store import Capabilities, Commit, DataFile, Where
from tidemark.contract.table import Change, Table
from tidemark.errors import TableError, conflict, first_line
from tidemark.figures.dialects import SparkSql
from tidemark.figures.reader import Reader
from tidemark.figures.reader_warehouse import SqlReader
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.spark_change import (
    DELETE,
    USER_METADATA,
    bounds,
    commit_of,
    condition,
    configured,
    saying,
    source_of,
    spark_schema,
)

_ATTEMPTS = 5
# Number of newest commits of a table that are searched for a writer's last commit.
_HISTORY = 1000
# For this long a read of a table's history also shows which writers have not committed to it: long enough for a start,
# which asks every table for each flow in turn.
_LOOKED_SECONDS = 60.0
# For this long a count of waiting rows is used again.
_FRESH_SECONDS = 10.0
# Number of newest commits from which waiting rows are counted.
_RECENT = 100


class SparkStore:
    """The tables of a lakehouse on any file system that Spark reaches, or of a catalog schema.

    Delta skips a commit whose application transaction it already has, but no portable interface returns
    that number. So each commit also has it in its user metadata, which the table's history shows.
    """

    def __init__(self, spark: SparkSession, lakehouse: Lakehouse) -> None:
        self._spark = spark
        self._lakehouse = lakehouse
        self._sessions: dict[str, SparkSession] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        # When the table's history, with all writers, was last read.
        self._looked: dict[str, float] = {}
        # By table, the time and result of the last count of waiting rows.
        self._waiting: dict[str, tuple[float, int | None]] = {}

    @property
    def can(self) -> Capabilities:
        return self._lakehouse.can

    @cached_property
    def reader(self) -> Reader:
        def execute(statement: str, parameters: dict[str, Any]) -> pa.Table:
            return self._spark.sql(statement).toArrow()

        def named(table: str) -> str:
            return self._lakehouse.sql_name(table.replace("/", "."))

        return SqlReader(self._lakehouse.name, named, execute, SparkSql)

    def ensure(self, table: Table, properties: Mapping[str, str] | None = None) -> None:
        name = self._lakehouse.sql_name(table)
        with _explained(name):
            properties = properties or {}
            if new := not self.exists(table):
                self._create(table, name, properties)
            there = {field.name: field.dataType for field in self._spark.table(name).schema}
            for column in spark_schema(table):
                kind = column.dataType.simpleString()
                if column.name not in there:
                    self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS (`{column.name}` {kind})")
                elif there[column.name].simpleString() != kind:
                    raise TableError(
                        f"table {name} has column {column.name} as {there[column.name].simpleString()}, not {kind}",
                        "It was made by another version: use that one, or rebuild the table.",
                    )
            if properties and not new:
                self._set_properties(name, properties)

    def _create(self, table: Table, name: str, properties: Mapping[str, str]) -> None:
        columns = ", ".join(
            f"`{column.name}` {column.dataType.simpleString()} COMMENT {_text(column.metadata['comment'])}"
            for column in spark_schema(table)
        )
        listed = _listed({**table.properties, **properties, **extra_properties(self._lakehouse, table)})
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING DELTA"
            f" COMMENT {_text(table.about)} TBLPROPERTIES ({listed})"
        )

    def _set_properties(self, name: str, properties: Mapping[str, str]) -> None:
        there = {row["key"]: row["value"] for row in self._spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        changed = {key: value for key, value in properties.items() if there.get(key) != value}
        if changed:
            self._spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_listed(changed)})")

    def version(self, table: Table) -> int:
        name = self._lakehouse.sql_name(table)
        with _explained(name):
            return int(self._spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"])

    def rows_since(self, table: Table, version: int) -> int | None:
        looked, rows = self._waiting.get(table.name, (float("-inf"), None))
        if looked < time.monotonic() - _FRESH_SECONDS:
            self._waiting[table.name] = time.monotonic(), None
            rows = self._count_since(table, version)
            self._waiting[table.name] = time.monotonic(), rows
        return rows

    def _count_since(self, table: Table, version: int) -> int | None:
        with _explained(self._lakehouse.sql_name(table)):
            newest = self._delta(self._spark, table).history(_RECENT).collect()
        if not newest or (newest[-1]["version"] > version and len(newest) == _RECENT):
            return None
        return sum(
            int((row["operationMetrics"] or {}).get("numOutputRows", 0))
            for row in newest
            if row["version"] >= version and row["operation"] in ("WRITE", "STREAMING UPDATE")
        )

    def committed(self, table: Table, writer: str) -> int:
        key = (table.name, writer)
        looked = self._looked.get(table.name, float("-inf"))
        if key not in self._numbers and looked < time.monotonic() - _LOOKED_SECONDS:
            with _explained(self._lakehouse.sql_name(table)):
                history = self._delta(self._spark, table).history(_HISTORY).select("userMetadata")
                commits = [commit_of(row["userMetadata"]) for row in history.collect()]
            for commit in filter(None, commits):  # the newest first
                for writer, number in ((commit.writer, commit.number), *commit.also):
                    self._numbers.setdefault((table.name, writer), number)
            self._looked[table.name] = time.monotonic()
        return self._numbers.setdefault(key, -1)

    def has_batches_of(self, table: Table, flow: str) -> bool:
        self.committed(table, "")  # reads the history
        return any(name == table.name and writer.startswith(f"{flow}/") for name, writer in self._numbers)

    def read(self, table: Table, where: Where = (), columns: Sequence[str] | None = None) -> pa.Table:
        wanted = list(columns or table.column_names)
        name = self._lakehouse.sql_name(table)
        with _explained(name):
            frame = self._spark.table(name)
            if where:
                groups = [reduce(Column.__and__, [condition(c) for c in group]) for group in where]
                frame = frame.where(reduce(Column.__or__, groups))
            there = frame.columns
            known = [F.col(each) if each in there else F.lit(None).alias(each) for each in wanted]
            rows: pa.Table = frame.select(*known).toArrow()
        return rows.cast(pa.schema([table.arrow_schema.field(name) for name in wanted]))

    def measure(self, scans: Sequence[Scan]) -> list[list[int | None]]:
        parts = [
            f"SELECT {number} AS scan, array({', '.join(f'bigint({each.sql})' for each in scan.measures)}) AS numbers"
            f" FROM {self._lakehouse.sql_name(scan.table)} VERSION AS OF {scan.version}"
            f" WHERE {'true' if scan.where is None else scan.where.sql}"
            for number, scan in enumerate(scans)
        ]
        with _explained(", ".join(scan.table.name for scan in scans)):
            rows = self._spark.sql(" UNION ALL ".join(parts)).collect() if parts else []
        numbers = {row["scan"]: list(row["numbers"]) for row in rows}
        return [numbers[number] for number in range(len(scans))]

    def append(self, table: Table, rows: DataFrame, commit: Commit) -> None:
        writer = (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", commit.writer)
            .option("txnVersion", commit.number)
            .option("userMetadata", saying(commit))
        )
        self._save(table, writer)
        self._done(table, commit)

    def directory(self, table: Table) -> None:
        return None

    def append_files(self, table: Table, files: Sequence[DataFile], commit: Commit) -> None:
        raise TableError(
            f"files cannot be added to {self._lakehouse.sql_name(table)}", "Leave `store` at auto."
        )

    def append_arrow(self, table: Table, rows: pa.Table, commit: Commit | None = None) -> None:
        frame = self._spark.createDataFrame(rows.select(table.column_names), spark_schema(table))
        if commit is not None:
            self.append(table, frame, commit)
        else:
            self._save(table, frame.write.format("delta").mode("append"))

    def upsert(self, table: Table, change: Change, commit: Commit) -> None:
        spark = self._session_of(table)
        source = source_of(spark, table, change)
        if source is None:  # nothing to change, but the batch number must be committed
            self.append_arrow(table, table.arrow_schema.empty_table(), commit)
            return
        # With bounds as literals, whole files are skipped without reading them.
        same_key = reduce(Column.__and__, [F.col(f"t.{n}") == F.col(f"s.{n}") for n in table.key])
        values: dict[str, str | Column] = {name: f"s.{name}" for name in table.column_names}
        # MERGE takes its application transaction and its metadata from the session only.
        settings = {
            "spark.databricks.delta.write.txnAppId": commit.writer,
            "spark.databricks.delta.write.txnVersion": str(commit.number),
            USER_METADATA: saying(commit),
        }

        def merge() -> None:
            (
                self._delta(spark, table).alias("t").merge(source.alias("s"), same_key & bounds(table, change))
                .whenMatchedDelete(f"s.{DELETE}")
                .whenMatchedUpdate(set=values)
                .whenNotMatchedInsert(f"NOT s.{DELETE}", values)
                .execute()
            )  # fmt: skip

        with configured(spark, settings):
            self._retry(table, merge)
        self._done(table, commit)

    def replace(self, table: Table, rows: Callable[[], Iterator[pa.Table]], commit: Commit) -> None:
        schema = table.arrow_schema
        whole = pa.concat_tables(
            [schema.empty_table(), *(part.select(schema.names).cast(schema) for part in rows())]
        )
        frame = self._spark.createDataFrame(whole, spark_schema(table))
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        self._save(table, writer.option("userMetadata", saying(commit)))
        self._done(table, commit)

    def id(self, table: Table) -> str:
        name = self._lakehouse.sql_name(table)
        with _explained(name):
            return str(self._spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["id"])

    def exists(self, table: Table) -> bool:
        if self._lakehouse.catalog_schema:
            return self._spark.catalog.tableExists(self._lakehouse.sql_name(table))
        return DeltaTable.isDeltaTable(self._spark, self._lakehouse.path(table))

    def _save(self, table: Table, writer: DataFrameWriter) -> None:
        # Without this check, an append to a missing table would create one.
        name = self._lakehouse.sql_name(table)
        with _explained(name):
            if not self.exists(table):
                raise TableError(
                    f"table {name} does not exist", "Start the pipeline once: it makes its tables."
                )
            if self._lakehouse.catalog_schema:
                self._retry(table, lambda: writer.saveAsTable(name))
            else:
                self._retry(table, lambda: writer.save(self._lakehouse.path(table)))

    def _retry(self, table: Table, act: Callable[[], None]) -> None:
        """Retries on the newest version after a conflict, for example with upkeep elsewhere."""
        name = self._lakehouse.sql_name(table)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with _explained(name):
                    act()
                return
            except DeltaConcurrentModificationException as error:
                if attempt == _ATTEMPTS:
                    raise conflict(name, _ATTEMPTS, error) from error

    def _done(self, table: Table, commit: Commit) -> None:
        for writer, number in ((commit.writer, commit.number), *commit.also):
            self._numbers[table.name, writer] = number

    def _session_of(self, table: Table) -> SparkSession:
        """A separate session per table, because tables are merged in parallel, and settings are per session."""
        if table.name not in self._sessions:
            self._sessions[table.name] = self._spark.newSession()
        return self._sessions[table.name]

    def _delta(self, spark: SparkSession, table: Table) -> DeltaTable:
        if self._lakehouse.catalog_schema:
            return DeltaTable.forName(spark, self._lakehouse.sql_name(table))
        return DeltaTable.forPath(spark, self._lakehouse.path(table))


# Iceberg metadata for a Delta table, and what it requires: https://docs.databricks.com/delta/uniform.html
ICEBERG: Mapping[str, str] = {
    "delta.universalFormat.enabledFormats": "iceberg",
    "delta.enableIcebergCompatV2": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "false",
}


def extra_properties(lakehouse: Lakehouse, table: Table) -> Mapping[str, str]:
    """Properties of a new table that follow from the lakehouse."""
    return ICEBERG if lakehouse.iceberg and lakehouse.catalog_schema and table.layer == "gold" else {}


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Converts Spark's errors about a missing, damaged or refused table to a TableError."""
    try:
        yield
    except DeltaConcurrentModificationException:
        raise
    except (PySparkException, Py4JError) as error:
        raise TableError(
            f"table {name} cannot be used: {first_line(error)}", "See docs/operations.md, 'A damaged table'."
        ) from error
