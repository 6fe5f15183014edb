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
from tidemark.engine.executors import Spread
from tidemark.home import Home
from tidemark.kafka import client as kafka
from tidemark.machine import heap_mebibytes
from tidemark.settings.sections import KafkaSettings
from tidemark.store import deltalog
from tidemark.stream import spread_topic
from tidemark.stream.batch_size import BatchSize
from tidemark.stream.direct import DirectRecords, Pause
from tidemark.stream.files import TableFiles
from tidemark.stream.lag import TopicLag, table_lag, table_rows, topic_ranges, topic_rows

# Spark's source uses microseconds. A timestamp in milliseconds that overflows them, for example of a producer that
# writes nanoseconds, fails its task at every attempt.
_TIMESTAMP = "that overflows when converting to Spark's microsecond-precision TimestampType"


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

    def spread(self, batch: DataFrame, checkpoint: Path, number: int, *, sparing: bool = False) -> Spread:
        """The rows of the batch of this number for executors. With `sparing`, a source that can leaves half of the
        cores."""

    def again(self, error: Exception, batch: DataFrame, checkpoint: Path, number: int) -> DataFrame | None:
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
        ranges = topic_ranges(self.settings.topic, checkpoint, number)
        records = self._direct.read(ranges) if ranges else None
        return batch.toArrow() if records is None else self.rows_of(records)

    @cached_property
    def _pause(self) -> Pause:
        return Pause()

    def spread(self, batch: DataFrame, checkpoint: Path, number: int, *, sparing: bool = False) -> Spread:
        ranges = topic_ranges(self.settings.topic, checkpoint, number)
        if not ranges or self._pause.lasts or all(start == end for start, end in ranges.values()):
            return Spread(batch)
        return spread_topic.spread(batch.sparkSession, self.settings, ranges, self.rows_of)

    def again(self, error: Exception, batch: DataFrame, checkpoint: Path, number: int) -> DataFrame | None:
        if spread_topic.failed(error):
            self._pause.begin()
            return batch
        # Spark has read a small batch, because it is unusual.
        return self.spread(batch, checkpoint, number).rows if _TIMESTAMP in str(error) else None


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

    def spread(self, batch: DataFrame, checkpoint: Path, number: int, *, sparing: bool = False) -> Spread:
        return self._files.spread(batch, sparing=sparing) if self._files else Spread(batch)

    def again(self, error: Exception, batch: DataFrame, checkpoint: Path, number: int) -> DataFrame | None:
        return None
