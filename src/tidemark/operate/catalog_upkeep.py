"""Upkeep with SQL, for tables of a catalog or at a URL: expired rows, compaction, files of old versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from delta.exceptions import DeltaConcurrentModificationException
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.table import Table
from tidemark.home import Home
from tidemark.operate.retention import older, retention_days
from tidemark.operate.upkeep import Done


def maintain_catalog(home: Home) -> list[Done]:
    """Deletes expired rows, compacts, and vacuums every table that exists; also beside a running pipeline.

    Old files stay for Delta's own retention (`delta.deletedFileRetentionDuration`, 7 days unless the table
    says otherwise): readers elsewhere cannot be asked. What a commit of the pipeline gets in the way of is left
    for the next time. Raises SettingError for a retention that makes no sense.
    """
    limits = retention_days(home.settings.upkeep.retention_days, home.tables)
    return [
        _maintain(home.spark, home.lakehouse.sql_name(table), table, limits.get(table.name, 0.0))
        for table in home.tables
        if home.store.exists(table)
    ]


def _maintain(spark: SparkSession, name: str, table: Table, days: float) -> Done:
    before = _files(spark, name)
    skipped: list[str] = []
    expired = 0
    if days:
        cut = f"TIMESTAMP '{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d %H:%M:%S}Z'"
        gone = _tried(
            lambda: spark.sql(f"DELETE FROM {name} WHERE {older(table, cut)}"), "not expired", skipped
        )
        expired = 0 if gone is None else int(gone.collect()[0]["num_affected_rows"])
    _tried(lambda: spark.sql(f"OPTIMIZE {name}"), "not compacted", skipped)
    spark.sql(f"VACUUM {name}")
    return Done(table.name, before, _files(spark, name), rows_expired=expired, skipped="; ".join(skipped))


def _tried(act: Callable[[], DataFrame], what: str, skipped: list[str]) -> DataFrame | None:
    try:
        return act()
    except DeltaConcurrentModificationException:
        skipped.append(f"{what}: the pipeline changed the table meanwhile")
        return None


def _files(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["numFiles"])
