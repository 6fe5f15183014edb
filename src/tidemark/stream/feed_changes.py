"""The changes of a table that only Spark reaches, from Delta's change data feed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from tidemark.contract.aggregation import Revisable, Step
from tidemark.contract.table import Table
from tidemark.engine import executors
from tidemark.engine.executors import Spread
from tidemark.engine.work import ALL, Part, Work
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.spark_change import commit_of
from tidemark.stream.changes import RETENTION, Change, Known, empty_source, width_of

# Steps that take Spark some jobs each.
_MOST_STEPS = 10


@dataclass(frozen=True)
class FeedChanges:
    """Changes of a table that only Spark reaches, from Delta's change data feed. It is enabled where it is missing."""

    spark: SparkSession
    lakehouse: Lakehouse
    table: Table

    def between(self, since: int, until: int, aggregation: Revisable, known: Known) -> Change | None:
        if until - since > _MOST_STEPS:
            return None
        try:
            writers = self._writers(until - since)
            versions = range(since + 1, until + 1)
            if not writers.keys() >= set(versions):  # others have committed meanwhile
                return None
            steps = [
                self._step(version, aggregation) for version in versions if writers[version] != RETENTION
            ]
        except PySparkException:
            self._enable()
            return None
        return Change(steps, until)

    def _writers(self, newest: int) -> dict[int, str]:
        """The writers of the newest versions, empty for those of other programs."""
        name = self.lakehouse.sql_name(self.table)
        history = self.spark.sql(f"DESCRIBE HISTORY {name} LIMIT {newest}").collect()
        commits = {row["version"]: commit_of(row["userMetadata"]) for row in history}
        return {version: commit.writer if commit else "" for version, commit in commits.items()}

    def _step(self, version: int, aggregation: Revisable) -> Step:
        reader = self.spark.read.option("readChangeFeed", "true")
        reader = reader.option("startingVersion", version).option("endingVersion", version)
        gone = F.col("_change_type").isin("delete", "update_preimage").alias("gone")
        work = Work(
            aggregations={
                "removed": (aggregation, Part("gone")),
                "added": (aggregation, Part("gone", wanted=False)),
            }
        )
        changes = self._load(reader).select(*aggregation.needs, gone)
        partials = executors.run(work, Spread(changes), {}, "").partials
        empty = aggregation.partial(empty_source(self.table, aggregation))
        return Step(partials.get("removed", empty), partials.get("added", empty))

    def within(self, starts: pa.ChunkedArray, aggregation: Revisable) -> pa.Table:
        time, width = F.col(self.table.time), timedelta(microseconds=width_of(aggregation))
        windows = [(time >= start) & (time < start + width) for start in pc.unique(starts).to_pylist()]
        wanted = reduce(Column.__or__, windows, F.lit(False))
        return self._aggregated(self._load(self.spark.read).where(wanted), aggregation)

    def parts(self, aggregation: Revisable) -> Iterator[pa.Table]:
        yield self._aggregated(self._load(self.spark.read), aggregation)

    def _aggregated(self, frame: DataFrame, aggregation: Revisable) -> pa.Table:
        work = Work(aggregations={"rows": (aggregation, ALL)})
        partials = executors.run(work, Spread(frame.select(*aggregation.needs)), {}, "").partials
        return (
            partials["rows"]
            if "rows" in partials
            else aggregation.partial(empty_source(self.table, aggregation))
        )

    def _load(self, reader: DataFrameReader) -> DataFrame:
        chosen = reader if self.lakehouse.catalog_schema else reader.format("delta")
        frame: DataFrame = self.lakehouse.load(chosen, self.table)
        return frame

    def _enable(self) -> None:
        name = self.lakehouse.sql_name(self.table)
        self.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
