"""The sources of flows: the topic of lines, and a table whose new rows are streamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.table import Table
from tidemark.engine.executors import Read
from tidemark.home import Home
from tidemark.kafka import client as kafka
from tidemark.machine import heap_mebibytes
from tidemark.settings.sections import KafkaSettings
from tidemark.store import deltalog
from tidemark.stream.batch_size import BatchSize
from tidemark.stream.direct import DirectRecords
from tidemark.stream.files import TableFiles
from tidemark.stream.lag import TopicLag, table_lag, table_rows, topic_ranges, topic_rows
from tidemark.stream.reread import refused, reread


class Source(Protocol):
    """The rows of a flow. `size` bounds the batches of a source that asks it."""

    @property
    def size(self) -> BatchSize | None: ...

    def stream(self, spark: SparkSession) -> DataFrame:
        """The streaming frame of the rows."""

    def lag(self, checkpoint: Path) -> int | None:
        """The number of rows that are in no batch yet; None if unknown."""

    def rows(self, checkpoint: Path, number: int) -> int | None:
        """The maximum rows of the batch of this number; None if unknown."""

    def fetch(self, batch: DataFrame, checkpoint: Path, number: int) -> pa.Table | None:
        """The rows of the batch of this number, for the driver; None if they are too large."""

    def spread(self, batch: DataFrame, *, sparing: bool = False) -> tuple[DataFrame, Read, pa.Schema | None]:
        """A frame of the batch for executors, the function with which they read its rows, and the schema of these if
        it is another than that of the frame. With `sparing`, a source that can leaves half of the cores."""

    def again(self, error: Exception, spark: SparkSession, checkpoint: Path, number: int) -> DataFrame | None:
        """The rows of the batch of this number, read in another way after this error; None if there is no other."""


@dataclass(frozen=True)
class TopicSource:
    """The records of the topic of lines. `rows_of` makes rows of records as the flow's `prepare` does."""

    settings: KafkaSettings
    size: BatchSize
    rows_of: Callable[[pa.Table], pa.Table]

    def stream(self, spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.format("kafka")
            .options(**kafka.spark_options(self.settings))
            .option("subscribe", self.settings.topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("failOnDataLoss", str(not self.settings.allow_data_loss).lower())
            .option("maxOffsetsPerTrigger", self.size.lines)
            .load()
        )

    @cached_property
    def _lag(self) -> TopicLag:
        return TopicLag(self.settings)

    def lag(self, checkpoint: Path) -> int | None:
        return self._lag(checkpoint)

    def rows(self, checkpoint: Path, number: int) -> int | None:
        return topic_rows(self.settings.topic, checkpoint, number)

    @cached_property
    def _direct(self) -> DirectRecords:
        return DirectRecords(self.settings)

    def fetch(self, batch: DataFrame, checkpoint: Path, number: int) -> pa.Table | None:
        ranges = topic_ranges(self.settings.topic, checkpoint, number) or {}
        known = {partition: (first, end) for partition, (first, end) in ranges.items() if first is not None}
        # The first records after a start are those of a partition whose first offset only Spark knows.
        records = self._direct.read(known) if ranges and len(known) == len(ranges) else None
        return batch.toArrow() if records is None else self.rows_of(records)

    def spread(self, batch: DataFrame, *, sparing: bool = False) -> tuple[DataFrame, Read, pa.Schema | None]:
        return batch, iter, None

    def again(self, error: Exception, spark: SparkSession, checkpoint: Path, number: int) -> DataFrame | None:
        return reread(self.settings, spark, checkpoint, number) if refused(error) else None


@dataclass(frozen=True)
class TableSource:
    """The new rows of a table, in batches of whole files: these columns of them."""

    home: Home
    table: Table
    columns: tuple[str, ...]
    size: None = None

    def stream(self, spark: SparkSession) -> DataFrame:
        lakehouse = self.home.lakehouse
        reader = spark.readStream.format("delta").option("skipChangeCommits", "true")
        # Up to about two million rows: a larger batch merges fewer rows into the tables for each of its lines. Its
        # partial rows, which may be as many as its lines, pass through the driver's heap.
        most = max(16, heap_mebibytes(self.home.settings.spark) // 64)
        reader = reader.option("maxBytesPerTrigger", f"{most}m").option("maxFilesPerTrigger", "200")
        if lakehouse.can.files and deltalog.is_new(lakehouse.log(self.table)):
            # Otherwise the first batch is the table's state, which takes Spark seconds to compute.
            reader = reader.option("startingVersion", "0")
        rows: DataFrame = lakehouse.load(reader, self.table)
        return rows

    def lag(self, checkpoint: Path) -> int | None:
        return table_lag(partial(self.home.store.rows_since, self.table), checkpoint)

    def rows(self, checkpoint: Path, number: int) -> int | None:
        return table_rows(self.home.lakehouse, self.table, checkpoint, number)

    @cached_property
    def _files(self) -> TableFiles | None:
        files = self.home.lakehouse.can.files
        return TableFiles(self.table, self.columns, files) if files else None

    def fetch(self, batch: DataFrame, checkpoint: Path, number: int) -> pa.Table | None:
        return self._files.fetch(batch) if self._files else batch.toArrow()

    def spread(self, batch: DataFrame, *, sparing: bool = False) -> tuple[DataFrame, Read, pa.Schema | None]:
        if self._files is None:
            return batch, iter, None
        return (*self._files.spread(batch, sparing=sparing), self._files.schema)

    def again(self, error: Exception, spark: SparkSession, checkpoint: Path, number: int) -> DataFrame | None:
        return None
