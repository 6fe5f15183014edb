"""Tables whose changes a query can follow: Delta's change data feed."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from examples.kit.job import Sources
from tidemark.contract.table import Table
from tidemark.store import lakehouse


@dataclass(frozen=True)
class FollowedTable(Table):
    """A table of which Delta keeps each row as it was before and after a change."""

    @property
    def properties(self) -> dict[str, str]:
        return {**super().properties, "delta.enableChangeDataFeed": "true"}


def changes(sources: Sources, table: FollowedTable) -> DataFrame:
    """The table's rows as they come, change and go, as a stream: first those that are there already.

    Adds `_change_type` (insert, update_preimage, update_postimage, delete), `_commit_version` and
    `_commit_timestamp`. The changes of one commit come in one batch.
    """
    path = lakehouse.of(sources.settings).path(table)
    return sources.spark.readStream.format("delta").option("readChangeFeed", "true").load(path)
