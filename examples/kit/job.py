"""A streaming job: what it reads, the queries it runs, what it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.kit.events import BATCH_RECORDS, Events, dead_letters, good, judged
from examples.kit.fetched import RECORD
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.kafka import client as kafka
from tidemark.settings import Settings

Write = Callable[[DataFrame, Commit], None]


@dataclass(frozen=True)
class Query:
    """One streaming query and where its rows go: to `write`, or to Kafka.

    `write` gets each micro-batch with a `Commit` to hand on to the store: after a crash the same batch comes
    again under the same number, and a table that has it already skips it. Whatever `write` does
    besides must be harmless to repeat. Without `write`, `rows` have the columns of a Kafka record
    (topic, value; key, headers), which may be written again after a crash: give them a key that a reader can know
    them by. `trigger` is what `DataStreamWriter.trigger` takes. A query with timers of processing time says in
    `linger_seconds` how long after the last input the last of them is due. `state_partitions`: in how many parts its
    state is kept, where fewer than rows are shuffled in will do; fixed with its first batch. `options` are further ones
    of `DataStreamWriter`.
    """

    name: str
    rows: DataFrame
    write: Write | None = None
    output_mode: str = "append"
    trigger: Mapping[str, str] = field(default_factory=lambda: {"processingTime": "200 milliseconds"})
    linger_seconds: float | None = None
    state_partitions: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sources:
    """What a job builds its queries from."""

    spark: SparkSession
    settings: Settings
    store: Store

    def records(self, topic: str, most: int | None = BATCH_RECORDS) -> DataFrame:
        """The topic's records from the beginning, as a stream: key, value, headers, topic, partition,
        offset, timestamp. A micro-batch has at most `most` of them, or all that there are."""
        records = (
            self.spark.readStream.format("kafka")
            .options(**kafka.spark_options(self.settings))
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
        )
        return (records if most is None else records.option("maxOffsetsPerTrigger", most)).load()

    def raw(self, *topics: str, most: int = BATCH_RECORDS) -> DataFrame:
        """The topics' records as `examples.kit.fetched` takes them, as a stream."""
        return (
            self.spark.readStream.format("kafka")
            .options(**kafka.spark_options(self.settings))
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", most)
            .load()
            .select(*RECORD)
        )

    def send(self, rows: DataFrame) -> None:
        """Writes a batch of Kafka records (topic, value; key, headers), for a query whose `write` has a side
        output. At least once: the same batch may be written again after a crash."""
        rows.write.format("kafka").options(**kafka.spark_options(self.settings)).save()

    def send_letters(self, bad: pa.Table, events: Events) -> None:
        """Sends dead letters of records that were judged here. At least once."""
        if bad.num_rows:
            rows = self.spark.createDataFrame(bad)
            record = F.struct(*RECORD).alias("record")
            self.send(dead_letters(rows.select(record, F.lit(False).alias("accepted"), "reasons"), events))

    def events(self, events: Events) -> DataFrame:
        """The topic's good events as a stream: their fields and `record`, see `examples.kit.events`."""
        return good(judged(self.records(events.topic, events.batch_records), events))


@dataclass(frozen=True)
class Job:
    """A job by name. `version` goes up when a checkpoint of its queries before no longer fits.

    `inputs` are its topics of events; their dead letters are written by a query of their own, unless the job's
    queries fetch the records. `tables` exist before `queries` is called; `outputs` are topics that it writes, of two
    partitions, `ordered` those of one. `slots`: at least so many tasks run at once where Spark runs within one machine,
    for queries that hold theirs for ever.
    `followers` go by what this one writes, each in a process of its own that gives way to this one's.
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

    def all_queries(self, sources: Sources) -> list[Query]:
        """The job's queries, and the one that writes the dead letters that they leave."""
        found = list(self.queries(sources))
        apart = [events for events in self.inputs if events.vectorized is None]
        bad = [dead_letters(judged(sources.records(e.topic, most=None), e), e) for e in apart]
        if bad:
            rows = reduce(DataFrame.unionByName, bad)
            found.append(Query("dead-letters", rows, trigger={"processingTime": "5 seconds"}))
        return found

    def topics(self) -> dict[str, int]:
        """Every topic that must be there, with the partitions that it gets on creation."""
        read = {events.topic: events.partitions for events in self.inputs}
        written = dict.fromkeys(self.outputs, 2) | dict.fromkeys(self.ordered, 1)
        return read | {e.dead_letters: 1 for e in self.inputs} | written
