"""Which store commits the tables of a lakehouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemark.contract.store import Store
from tidemark.errors import SettingError
from tidemark.settings.sections import LakehouseSettings
from tidemark.store import object_storage
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_store(settings: LakehouseSettings, lakehouse: Lakehouse, spark: SparkSession) -> Store:
    """The store of the setting `store`; `auto` takes delta-rs if it reaches the tables, because it commits
    a few rows ten times as fast, otherwise Spark.

    Raises SettingError for delta-rs if it does not reach the tables, and for Spark if commits of several
    writers would overwrite each other.
    """
    if settings.store == "deltars" and lakehouse.can.files is None:
        raise SettingError(f"store=deltars cannot commit to {lakehouse.name}", "Leave it at auto.")
    if settings.store == "spark" and object_storage.reaches(lakehouse.root):
        raise SettingError(f"store=spark cannot commit safely to {lakehouse.name}", "Leave it at auto.")
    if lakehouse.can.files is None or settings.store == "spark":
        return _spark_store(spark, lakehouse)
    return DeltaRsStore(lakehouse)


def without_spark(lakehouse: Lakehouse, session: Callable[[], SparkSession]) -> Store:
    """A store that uses Spark only if delta-rs does not reach the tables."""
    return DeltaRsStore(lakehouse) if lakehouse.can.files else _spark_store(session(), lakehouse)


def _spark_store(spark: SparkSession, lakehouse: Lakehouse) -> Store:
    from tidemark.store.catalog import SparkStore  # not every installation has Spark

    return SparkStore(spark, lakehouse)
