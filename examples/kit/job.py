"""A streaming job: its inputs, queries and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.kit.accounts import TABLES, accounted, observed
from examples.kit.events import BATCH_RECORDS, Events, dead_letters, good, validated
from examples.kit.fetched import RECORD
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.kafka import client as kafka
from tidemark.settings import Settings
from tidemark.stream.query import Query


@dataclass(frozen=True)
class Sources:
    """The sources and stores from which a job builds its queries."""

    spark: SparkSession
    settings: Settings
    store: Store

    def records(self, topic: str, most: int | None = BATCH_RECORDS) -> DataFrame:
        """The topic's records from the beginning, as a stream: key, value, headers, topic, partition,
        offset, timestamp. A micro-batch has at most `most` of them (default: all)."""
        return observed(self._records(topic, most), topic, F.lit(True), F.col("timestamp"))

    def _records(self, topic: str, most: int | None) -> DataFrame:
        records = (
            self.spark.readStream.format("kafka")
            .options(**kafka.spark_options(self.settings.kafka))
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
        )
        return (records if most is None else records.option("maxOffsetsPerTrigger", most)).load()

    def raw(self, *topics: str, most: int = BATCH_RECORDS) -> DataFrame:
        """The topics' records as a stream, for `examples.kit.fetched`."""
        return (
            self.spark.readStream.format("kafka")
            .options(**kafka.spark_options(self.settings.kafka))
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", most)
            .load()
            .select(*RECORD)
        )

    def send(self, rows: DataFrame) -> None:
        """Writes a batch of Kafka records (topic, value; key, headers), as a side output of a query's
        `write`. At least once: the same batch may be written again after a crash."""
        rows.write.format("kafka").options(**kafka.spark_options(self.settings.kafka)).save()

    def send_letters(self, bad: pa.Table, events: Events) -> None:
        """Sends dead letters of records that were validated in the driver. At least once."""
        if bad.num_rows:
            rows = self.spark.createDataFrame(bad)
            record = F.struct(*RECORD).alias("record")
            self.send(dead_letters(rows.select(record, F.lit(False).alias("accepted"), "reasons"), events))

    def events(self, events: Events) -> DataFrame:
        """The topic's valid events as a stream: their fields and `record`, see `examples.kit.events`."""
        rows = validated(self._records(events.topic, events.batch_records), events)
        return good(observed(rows, events.topic, F.col("accepted"), F.col("record.timestamp")))

    def dead_letters(self, events: Events) -> DataFrame:
        """The topic's invalid events as a stream of records."""
        return dead_letters(validated(self._records(events.topic, None), events), events)


@dataclass(frozen=True)
class Job:
    """A job by name. Increment `version` when earlier checkpoints of its queries become incompatible.

    `inputs` are its topics of events. A separate query writes their dead letters, unless the job's
    queries collect the records. `tables` are created before `queries` is called. `outputs` are topics that it writes,
    with two partitions, `ordered` those with one. `slots`: the minimum number of concurrent tasks on a local Spark,
    for queries that occupy theirs permanently.
    `followers` read this job's output, each in a process of lower priority.
    """

    name: str
    version: int
    inputs: tuple[Events, ...]
    queries: Callable[[Sources], Sequence[Query]]
    tables: tuple[Table, ...] = ()
    outputs: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    slots: int = 0
    followers: tuple[Job, ...] = ()

    @property
    def all_tables(self) -> tuple[Table, ...]:
        """Its tables, and those of its accounting."""
        return (*self.tables, *TABLES)

    def all_queries(self, sources: Sources) -> list[Query]:
        """The job's queries, and the query that writes the remaining dead letters, with separate names."""
        queries = list(self.queries(sources))
        apart = [events for events in self.inputs if not events.collected]
        bad = [sources.dead_letters(events) for events in apart]
        if bad:
            rows = reduce(DataFrame.unionByName, bad)
            seconds = sources.settings.batches.derive_interval_seconds
            trigger = {"processingTime": f"{seconds:g} seconds"}
            queries.append(Query("dead-letters", lambda: rows, trigger=trigger))
        named = [
            replace(
                query,
                name=f"{self.name}.{query.name}",
                version=self.version,
                checkpoint_name=f"{self.name}/{query.name}",
            )
            for query in queries
        ]
        collected = len(apart) < len(self.inputs)
        return [accounted(query, sources.spark, sources.store, collected=collected) for query in named]

    def topics(self) -> dict[str, int]:
        """Every required topic, with its number of partitions on creation."""
        read = {events.topic: events.partitions for events in self.inputs}
        written = dict.fromkeys(self.outputs, 2) | dict.fromkeys(self.ordered, 1)
        return read | {e.dead_letters: 1 for e in self.inputs} | written
