"""Facts about tables for expectations, read with few and small Spark jobs.

Everything is read at one moment between two micro-batches, so counts of different tables agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import lock

_DAYS = 7
_LEAST_DAYS = 3


@dataclass(frozen=True)
class Snapshot:
    """Consistent versions of tables."""

    spark: SparkSession
    house: Lakehouse
    versions: Mapping[str, int]

    def sql_name(self, table: Table) -> str:
        return f"{self.house.sql_name(table)} VERSION AS OF {self.versions[table.name]}"

    def rows(self, table: Table, since: datetime | None) -> DataFrame:
        """Rows written after `since` (default: all); files without such rows are skipped."""
        return self.spark.sql(f"SELECT * FROM {self.sql_name(table)}{_after(table, since)}")


@dataclass(frozen=True)
class New:
    """Number of new or revised rows of a table, and the time of the newest."""

    rows: int
    newest: datetime | None


def snapshot(
    spark: SparkSession, settings: Settings, house: Lakehouse, store: Store, tables: Sequence[Table]
) -> Snapshot:
    """The tables between two micro-batches; batches wait for a few milliseconds."""
    with lock.at_rest(settings):
        return Snapshot(spark, house, {table.name: store.version(table) for table in (*tables, ACCOUNTS)})


def new_rows(at: Snapshot, since: Mapping[Table, datetime | None]) -> dict[str, New]:
    """New rows of each table after its time in `since`, in one job."""
    parts = [
        f"SELECT '{table.name}' AS name, count(*) AS rows, max({table.clock}) AS newest"
        f" FROM {at.sql_name(table)}{_after(table, time)}"
        for table, time in since.items()
    ]
    return {row["name"]: New(row["rows"], row["newest"]) for row in _rows(at, parts)}


def row_counts(at: Snapshot, tables: Sequence[Table]) -> dict[str, int]:
    """Rows of whole tables, from Delta's statistics."""
    parts = [f"SELECT '{table.name}' AS name, count(*) AS rows FROM {at.sql_name(table)}" for table in tables]
    return {row["name"]: row["rows"] for row in _rows(at, parts)}


def accounted_sums(at: Snapshot, tables: Sequence[Table], since: datetime | None) -> dict[str, int]:
    """Increase of each table's `accounted` sum in quality.accounts after `since`, and the number of its rows."""
    # Batches of jobs on the same home are no lines of these tables.
    own = "flow NOT LIKE '%.%'"
    sums = ", ".join(f"coalesce(sum({t.accounted}) FILTER (WHERE {own}), 0) AS `{t.name}`" for t in tables)
    counted = f"count(*) AS `{ACCOUNTS.name}`"
    return _rows(at, [f"SELECT {sums}, {counted} FROM {at.sql_name(ACCOUNTS)}{_after(ACCOUNTS, since)}"])[0]


def share_of_usual(at: Snapshot, table: Table, now: datetime) -> float | None:
    """The last hour's sum of `table.volume` divided by the median of the same hour on the last seven days.

    None with fewer than three days to compare with.
    """
    moment = f"timestamp_micros({int(now.timestamp() * 1_000_000)})"
    ago = f"(unix_seconds({moment}) - unix_seconds({table.time}) - 1)"
    rows = _rows(at, [
        f"SELECT int({ago} DIV 86400) AS day, sum({table.volume}) AS volume FROM {at.sql_name(table)}"
        f" WHERE {table.time} >= {moment} - INTERVAL {_DAYS * 24 + 1} HOURS AND {table.time} < {moment}"
        f" AND {ago} % 86400 < 3600 GROUP BY 1"
    ])  # fmt: skip
    volumes = {row["day"]: row["volume"] for row in rows}
    before = [volume for day, volume in volumes.items() if day > 0 and volume]
    return float(volumes.get(0, 0) / median(before)) if len(before) >= _LEAST_DAYS else None


def _rows(at: Snapshot, parts: Sequence[str]) -> list[dict[str, Any]]:
    if not parts:
        return []
    rows: list[dict[str, Any]] = at.spark.sql(" UNION ALL ".join(parts)).toArrow().to_pylist()
    return rows


def _after(table: Table, since: datetime | None) -> str:
    if since is None:
        return ""
    return f" WHERE {table.clock} > timestamp_micros({round(since.timestamp() * 1_000_000)})"
