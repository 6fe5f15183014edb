"""Which store commits the tables of a lakehouse."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.contract.store import Store
from tidemark.errors import SettingError
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.spark import SparkStore


def open_store(settings: Settings, house: Lakehouse, spark: SparkSession) -> Store:
    """The store that the setting `store` names; `auto` takes delta-rs for tables in directories of this
    machine, since it commits a few rows ten times as fast, and Spark for all others.

    Raises SettingError for delta-rs where it does not reach the tables.
    """
    if settings.store == "deltars" and not house.on_this_machine:
        raise SettingError(
            f"store=deltars cannot commit to {house.catalog_schema or house.root}", "Leave it at auto."
        )
    if settings.store == "spark" or not house.on_this_machine:
        return SparkStore(spark, house)
    return DeltaRsStore(house)
