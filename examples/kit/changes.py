"""Tables whose changes a query can follow: Delta's change data feed."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from examples.kit.job import Sources
from tidemark.contract.table import Table
from tidemark.store import lakehouse


@dataclass(frozen=True)
class FollowedTable(Table):
    """A table for which Delta keeps each row before and after a change."""

    @property
    def properties(self) -> dict[str, str]:
        return {**super().properties, "delta.enableChangeDataFeed": "true"}


def changes(sources: Sources, table: FollowedTable) -> DataFrame:
    """The table's inserts, updates and deletes as a stream, beginning with the existing rows.

    Adds `_change_type` (insert, update_preimage, update_postimage, delete), `_commit_version` and
    `_commit_timestamp`. The changes of one commit are in one batch.
    """
    path = lakehouse.of(sources.settings).path(table)
    return sources.spark.readStream.format("delta").option("readChangeFeed", "true").load(path)
