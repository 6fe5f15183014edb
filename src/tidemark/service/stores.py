"""The tables of a home, for commands that read or write a few rows: without Spark where delta-rs reaches them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.contract.store import Store
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.choose import without_spark


def store_of(settings: Settings) -> Store:
    """The tables of the settings' lakehouse. Raises SettingError."""

    def session() -> SparkSession:
        from tidemark.spark import spark_session

        return spark_session(settings)

    return without_spark(lakehouse.of(settings), session)
