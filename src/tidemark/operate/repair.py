"""Recovers the losses of a power cut: newest entries of the tables' logs, and files of derived tables.

The first flow runs lost batches again with the lines
of the offsets in the checkpoint. Each table takes only the batches that it lacks. Inconsistent results of
the second flow are dropped, and the flow recomputes them from silver.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.contract.store import Commit
from tidemark.errors import TableError
from tidemark.home import ACTIVITY, REQUESTS, Home
from tidemark.kafka import client as kafka
from tidemark.operate import losses
from tidemark.operate.losses import Loss
from tidemark.operate.retention import limited
from tidemark.store import deltalog
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import lock
from tidemark.stream.crash import crash_point
from tidemark.stream.flow import BatchWriter, Flow
from tidemark.stream.table_state import TableState, record_states

Report = Callable[[str], None]
Ends = dict[str, dict[str, int]]

_RESTORE = "Restore a savepoint or a backup, see docs/operations.md, 'A damaged table'."


@dataclass(frozen=True)
class Repair:
    """A repair of a home's tables, which nobody else uses meanwhile. `flow` reads the lines."""

    home: Home
    flow: Flow
    report: Report

    def prepare(self, known: frozenset[str]) -> list[Loss]:
        """Removes damaged ends of the logs, and tables that the second flow will recompute, before Spark reads
        the tables. Returns the losses of the first flow's tables. After an interruption it can be
        repeated."""
        home, graph, lakehouse = self.home, self.home.graph, self.home.lakehouse
        again = losses.mark(home.settings).exists()
        losses.mark(home.settings).touch()
        for table in graph.of_flows:
            for name in trim(Path(lakehouse.path(table)) / "_delta_log"):
                self.report(f"{table.name}: the damaged entry {name} of its log is put aside")
        lock.settle(home.settings)
        for table in graph.of_flows:
            unreadable = _unreadable(lakehouse.path(table))
            if unreadable and table not in graph.after_accepted:
                raise TableError(f"{table.name} cannot be repaired: {unreadable}", _RESTORE)
            if unreadable:
                self._drop_second()
                again = True
        store = DeltaRsStore(lakehouse)
        lost = losses.losses(home, store, known)
        first = [loss for loss in lost if loss.flow == self.flow.name]
        accepted = graph.accepted
        damaged = [table for table in graph.of_flows if losses.missing_files(lakehouse, store, table)]
        kept = [table for table in damaged if table not in graph.after_accepted]
        reverted = [table for table in graph.of_flows if losses.lost_swap(lakehouse, store, table)]
        for table in reverted:
            if table not in graph.after_accepted:
                raise TableError(
                    f"{table.name} cannot be repaired: it lost what the last rebuild or forget changed",
                    _RESTORE,
                )
        if kept:
            name = losses.missing_files(lakehouse, store, kept[0])[0]
            raise TableError(f"{kept[0].name} cannot be repaired: its data file {name} is lost", _RESTORE)
        if (
            again
            or damaged
            or reverted
            or len(lost) > len(first)
            or any(loss.table == accepted for loss in first)
            or losses.skips_rows(home, store)
        ):
            if accepted.name in limited(home):
                raise TableError(
                    f"{accepted.name} keeps its rows for a time only, so what was made of it cannot be made anew",
                    _RESTORE,
                )
            self._drop_second()
        return first

    def run(self, lost: Sequence[Loss]) -> None:
        """Runs the lost batches of the first flow's tables again."""
        if not lost:
            return
        spark, lines = self.home.spark, self.home.graph.lines
        writer = deltalog.writer(self.flow.name, self._checkpoint)
        done = deltalog.last_batch(self._checkpoint)
        holds = {loss.table: loss.holds for loss in lost}
        from_kafka = min((holds[t] for t in (lines, ACCOUNTS) if t in holds), default=done)
        batches = BatchWriter(self.flow, self.home)
        for number in range(min(holds.values()) + 1, done + 1):
            start, end = self._offsets(number - 1), self._offsets(number)
            gone = list(self._gone(start, end)) if number > from_kafka else []
            in_bronze = number <= holds.get(lines, done)
            if number > from_kafka and not (gone and in_bronze):
                source, rows = "Kafka", self._kafka_lines(spark, start, end)
                for topic, partition, low, high in gone:
                    self.report(
                        f"batch {number}: offsets {low} to {high - 1} of partition {partition} of topic {topic} are"
                        f" lost: Kafka has them no more"
                    )
            else:
                source, rows = lines.name, self._kept_lines(spark, start, end)
            with lock.batch(self.home.settings):
                batches.write(rows, Commit(writer, number))
            names = ", ".join(table.name for table, held in holds.items() if held < number)
            self.report(f"{names}: batch {number} was made again from {source}")
        for loss in lost:
            # A batch whose lines are all lost must not be reported forever.
            if self.home.store.committed(loss.table, writer) < loss.committed:
                empty = loss.table.arrow_schema.empty_table()
                self.home.store.append_arrow(loss.table, empty, Commit(writer, loss.committed))

    @property
    def _checkpoint(self) -> Path:
        return self.home.checkpoint(REQUESTS)

    def _drop_second(self) -> None:
        dropped = self.home.graph.after_accepted
        for table in dropped:
            shutil.rmtree(self.home.lakehouse.path(table), ignore_errors=True)
        crash_point("repair:between")
        shutil.rmtree(self.home.checkpoint(ACTIVITY), ignore_errors=True)
        record_states(self.home.lakehouse, {table.name: TableState(swap=0) for table in dropped})
        names = ", ".join(table.name for table in dropped)
        self.report(f"{names}: will be made anew from {self.home.graph.accepted.name}")

    def _offsets(self, number: int) -> Ends:
        """The flow's Kafka offsets after a batch."""
        try:
            if number >= 0:
                return deltalog.stream_offset(self._checkpoint, number)
            text = (self._checkpoint / "sources" / "0" / "0").read_text(encoding="utf-8")
            first: Ends = json.loads(text[text.index("{") :])
            return first
        except (OSError, ValueError, LookupError) as error:
            raise TableError(
                f"the checkpoint {self._checkpoint} no longer tells where batch {number} ended", _RESTORE
            ) from error

    def _ranges(self, start: Ends, end: Ends) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, first offset and end offset of a batch."""
        for topic, ends in end.items():
            for partition, high in ends.items():
                low = start.get(topic, {}).get(partition, 0)
                if high > low:
                    yield topic, int(partition), low, high

    def _gone(self, start: Ends, end: Ends) -> Iterator[tuple[str, int, int, int]]:
        """The offsets that Kafka no longer has."""
        kept = {topic: kafka.beginning_offsets(self.home.settings.kafka, topic) for topic in end}
        for topic, partition, low, high in self._ranges(start, end):
            first = kept[topic].get(partition, high)
            if first > low:
                yield topic, partition, low, min(first, high)

    def _kafka_lines(self, spark: SparkSession, start: Ends, end: Ends) -> DataFrame:
        kept = {topic: kafka.beginning_offsets(self.home.settings.kafka, topic) for topic in end}
        ranges = [
            (topic, partition, min(max(low, kept[topic].get(partition, high)), high), high)
            for topic, partition, low, high in self._ranges(start, end)
        ]

        def by_topic(value: Callable[[int, int], int]) -> str:
            offsets: dict[str, dict[str, int]] = {}
            for topic, partition, low, high in ranges:
                offsets.setdefault(topic, {})[str(partition)] = value(low, high)
            return json.dumps(offsets)

        partitions: dict[str, list[int]] = {}
        for topic, partition, _, _ in ranges:
            partitions.setdefault(topic, []).append(partition)
        records = (
            spark.read.format("kafka")
            .options(**kafka.spark_options(self.home.settings.kafka))
            .option("assign", json.dumps(partitions))
            .option("startingOffsets", by_topic(lambda low, high: low))
            .option("endingOffsets", by_topic(lambda low, high: high))
            .option("includeHeaders", "true")
            .load()
        )
        return self.flow.prepare(records)

    def _kept_lines(self, spark: SparkSession, start: Ends, end: Ends) -> DataFrame:
        these: list[Column] = [
            (F.col("topic") == topic)
            & (F.col("partition") == partition)
            & F.col("offset").between(low, high - 1)
            for topic, partition, low, high in self._ranges(start, end)
        ]
        lines = self.home.graph.lines
        rows = spark.read.format("delta").load(self.home.lakehouse.path(lines))
        return rows.where(reduce(Column.__or__, these, F.lit(False))).drop(lines.clock)


def trim(log: Path) -> list[str]:
    """Moves unreadable newest entries of a log aside, and Spark's files about missing
    entries. Returns the names of the former."""
    if not log.is_dir():
        return []
    entries = {deltalog.version_of(p.name): p for p in log.glob("*.json")}
    entries.pop(None, None)
    removed = []
    for version in sorted(entries, key=lambda version: version or 0, reverse=True):
        if _readable(entries[version]):
            break
        damaged = entries.pop(version)
        removed.append(damaged.name)
        damaged.rename(damaged.with_name(f"{damaged.name}.damaged"))
    newest = max((version for version in entries if version is not None), default=-1)
    for path in list(log.iterdir()):
        version = deltalog.version_of(path.name.lstrip("."))
        if path.suffix == ".crc" and version is not None and version > newest:
            path.unlink()
    return removed


def _unreadable(path: str) -> str:
    """Why the table at `path` cannot be opened; empty if it can, or is missing."""
    try:
        DeltaTable.is_deltatable(path) and DeltaTable(path)
    except (DeltaError, OSError) as error:
        return next(iter(str(error).splitlines()), "") or type(error).__name__
    return ""


def _readable(entry: Path) -> bool:
    try:
        actions: list[Any] = [json.loads(line) for line in entry.read_bytes().splitlines()]
    except ValueError:
        return False
    return bool(actions) and all(isinstance(action, dict) for action in actions)
