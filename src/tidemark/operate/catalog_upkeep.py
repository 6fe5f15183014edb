"""Upkeep with SQL, for tables of a catalog or at a URL: expired rows, compaction, files of old versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from delta.exceptions import DeltaConcurrentModificationException
from pyspark.sql import SparkSession

from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.contract.store import Commit
from tidemark.home import Home
from tidemark.operate import old_accounts
from tidemark.operate.retention import expiry, record_kept, retention_days
from tidemark.operate.upkeep import Done
from tidemark.store.spark_change import USER_METADATA, configured, saying
from tidemark.stream.changes import RETENTION

# Delta refuses to delete files that are younger than its own retention, unless this is false.
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"

T = TypeVar("T")


def maintain_catalog(home: Home) -> list[Done]:
    """Deletes expired rows, compacts, and vacuums every table that exists; also beside a running pipeline.

    Old files stay for Delta's own retention (`delta.deletedFileRetentionDuration`, 7 days unless the table
    says otherwise): readers elsewhere cannot be asked. What a commit of the pipeline gets in the way of is left
    for the next time. Raises SettingError for a retention that makes no sense.
    """
    now, done = datetime.now(UTC), []
    retention_days(home.settings.upkeep.retention_days, home.tables)
    for table in home.tables:
        if home.store.exists(table):
            condition = expiry(home, table, now)
            if condition and table in home.graph.sources:
                record_kept(home, table, now)
            done.append(_maintain(home.spark, home.lakehouse.sql_name(table), table.name, condition))
    return done


def erase_old_versions_in_catalog(home: Home) -> None:
    """Deletes at once every file that the newest version of a table does not have. Queries that read such a file fail.
    The caller sees to it that nobody writes, and that the flows have read all rows."""
    for table in home.tables:
        if home.store.exists(table):
            with configured(home.spark, {_CHECK: "false"}):
                home.spark.sql(f"VACUUM {home.lakehouse.sql_name(table)} RETAIN 0 HOURS")


def _maintain(spark: SparkSession, name: str, table: str, expired_if: str) -> Done:
    before = _files(spark, name)
    skipped: list[str] = []
    expired = 0
    if expired_if:
        # Tables made of this one do not follow such a commit.
        with configured(spark, {USER_METADATA: saying(Commit(RETENTION, 0))}):
            gone = _tried(lambda: spark.sql(f"DELETE FROM {name} WHERE {expired_if}"), "not expired", skipped)
        expired = 0 if gone is None else int(gone.collect()[0]["num_affected_rows"])
        # With deletion vectors the rows are still in their files.
        _tried(lambda: spark.sql(f"REORG TABLE {name} APPLY (PURGE)"), "not purged", skipped)
    if table == ACCOUNTS.name:
        _tried(lambda: _sum_old_accounts(spark, name), "not summed per day", skipped)
    _tried(lambda: spark.sql(f"OPTIMIZE {name}"), "not compacted", skipped)
    spark.sql(f"VACUUM {name}")
    return Done(table, before, _files(spark, name), rows_expired=expired, skipped="; ".join(skipped))


def _sum_old_accounts(spark: SparkSession, name: str) -> None:
    now = datetime.now(UTC)
    query = old_accounts.summed(name, now)
    if not spark.sql(f"SELECT 1 FROM ({query}) WHERE {old_accounts.BATCHES} > 1").isEmpty():
        columns = ", ".join(ACCOUNTS.column_names)
        spark.sql(f"INSERT INTO {name} REPLACE WHERE {old_accounts.old(now)} SELECT {columns} FROM ({query})")


def _tried(act: Callable[[], T], what: str, skipped: list[str]) -> T | None:
    try:
        return act()
    except DeltaConcurrentModificationException:
        skipped.append(f"{what}: the pipeline changed the table meanwhile")
        return None


def _files(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["numFiles"])
