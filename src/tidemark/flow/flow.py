"""A flow: one streaming query whose every micro-batch commits several tables, exactly once.

Spark's checkpoint decides which input belongs to which batch; a batch that was interrupted is run again
with the same input. Each table's commit carries the batch number, so what is already there is skipped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.arrow import Vectorized
from tidemark.flow import gate
from tidemark.flow.accounting import Account, Ledger
from tidemark.flow.batch_size import BatchSize, most_fetched
from tidemark.flow.crash import crash_point
from tidemark.flow.deliveries import NEEDS, Deliveries, has_ids, left_of, without
from tidemark.flow.progress import Progress, account_facts
from tidemark.flow.reread import refused
from tidemark.flow.sinks import Sink, Upsert
from tidemark.lakehouse import Lakehouse
from tidemark.machine import judging_threads
from tidemark.settings import Settings
from tidemark.store.base import Commit, Store
from tidemark.table import Table

log = logging.getLogger("tidemark.flow")


@dataclass(frozen=True)
class Plan:
    """The sinks of one batch, the urgent one first: it is begun before any other.

    `facts` is what the flow reports of the batch, see `Progress.batch_done`.
    """

    sinks: Sequence[Sink]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """What a flow reads, makes of it and writes.

    `version` changes when a checkpoint of the old query no longer fits. `prepare` is part of the
    streaming query, so Spark analyses it once, not once per batch; a batch is fetched or cached, and
    every sink takes its rows from there. `plan` says what to do with such a batch, either way. `lag` tells,
    from the checkpoint, how many rows wait; `rows` how many the batch of a number has at most, None where that
    cannot be told; `fetch` has a batch come here, None if its rows are too long for that. `judge`: the batches are
    lines, to be judged by it, which adds `accepted`, and accounted for; the plan is for judged ones. `size` bounds the
    batches of a source that asks it. `lines_and_rejected`: the tables that tell which delivery ids were accepted
    before; lines that repeat one are left out. `reread`: another way to the source's rows of the batch of a number, for
    one that Spark's source refuses.
    """

    name: str
    version: int
    source: Callable[[SparkSession], DataFrame]
    prepare: Callable[[DataFrame], DataFrame]
    plan: Callable[[DataFrame | pa.Table], Plan]
    lag: Callable[[Path], int | None]
    rows: Callable[[Path, int], int | None] = lambda checkpoint, number: None
    fetch: Callable[[DataFrame], pa.Table | None] = DataFrame.toArrow
    judge: Vectorized | None = None
    lines_and_rejected: tuple[Table, Table] | None = None
    size: BatchSize | None = None
    interval_seconds: float = 0.0
    reread: Callable[[SparkSession, Path, int], DataFrame] | None = None

    def checkpoint(self, lakehouse: Lakehouse) -> str:
        """Where its query keeps its checkpoint."""
        return lakehouse.checkpoint(self.name, self.version)


class _EndingError(Exception):
    """No further batch is to begin."""


class Runner:
    """Runs one flow's batches against a store."""

    query: StreamingQuery

    def __init__(
        self,
        flow: Flow,
        spark: SparkSession,
        settings: Settings,
        lakehouse: Lakehouse,
        store: Store,
        progress: Progress,
    ) -> None:
        self.flow = flow
        self._spark = spark
        self._settings = settings
        self._lakehouse = lakehouse
        self._store = store
        self._progress = progress
        self._ledger = Ledger(store, flow.name, settings.late_seconds) if flow.judge else None
        self._deliveries = (
            Deliveries(store, lakehouse, *flow.lines_and_rejected, settings.duplicate_days)
            if flow.lines_and_rejected
            else None
        )
        self._under_way = threading.Lock()
        self._most_fetched = most_fetched(settings)
        self.failure: Exception | None = None
        self._once = False
        self._ending = threading.Event()
        self._threads = ThreadPoolExecutor(max_workers=6, thread_name_prefix=flow.name)
        self._judges = ThreadPoolExecutor(judging_threads(), thread_name_prefix=f"{flow.name}-judge")

    def end(self) -> None:
        """Has no further batch begin; one that Spark hands over all the same fails, and runs again next time."""
        self._ending.set()

    def start(self, *, once: bool) -> None:
        """Starts `query`; with `once` it works off what is there and ends."""
        self._once = once
        trigger = (
            {"availableNow": True} if once else {"processingTime": f"{self.flow.interval_seconds:g} seconds"}
        )
        self.query = (
            self.flow.prepare(self.flow.source(self._spark))
            .writeStream.queryName(self.flow.name)
            .option("checkpointLocation", self.flow.checkpoint(self._lakehouse))
            .foreachBatch(self._batch)
            .trigger(**trigger)
            .start()
        )
        self._progress.watch(self.flow.name, self.query)

    def resize(self, stopping: threading.Event) -> None:
        """Where another bound on the batches would fit better, starts the query anew with it, between two
        batches: Spark fixes the bound when a query starts."""
        size = None if self._once else self.flow.size
        lines = size.better() if size else None
        if size is None or lines is None:
            return
        self._ending.set()
        while not self._under_way.acquire(timeout=0.2):
            if stopping.is_set():
                return
        self._under_way.release()
        if self.failure:  # which a query started anew would hide
            return
        self.query.stop()
        self._ending.clear()
        size.change(lines)
        log.info("a batch of %s has up to %d rows from now on", self.flow.name, lines)
        self.start(once=False)

    def replay(self, prepared: DataFrame, commit: Commit) -> None:
        """Runs a batch again that some tables have lost. Those that have its number skip it."""
        with gate.batch(self._settings):
            self._work(prepared, commit, datetime.now(UTC))

    def _batch(self, prepared: DataFrame, number: int) -> None:
        with self._under_way:
            try:
                self._run_batch(prepared, number)
            except _EndingError:
                raise
            except Exception as error:
                # Through Spark it would come back as text only.
                self.failure = error
                raise

    def _run_batch(self, prepared: DataFrame, number: int) -> None:
        query = prepared.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        commit = Commit(f"{self.flow.name}/{query}", number)
        started = datetime.now(UTC)
        with gate.batch(self._settings):
            if self._ending.is_set():
                raise _EndingError(f"the query is ending: batch {number} runs again next time")
            facts = self._work(prepared, commit, started)
            crash_point(f"{self.flow.name}:before-checkpoint")
        if self.flow.size:
            self.flow.size.observe(facts["rows"], (datetime.now(UTC) - started).total_seconds())
        self._progress.batch_done(self.flow.name, number, started, facts)

    def _work(self, prepared: DataFrame, commit: Commit, started: datetime) -> Mapping[str, Any]:
        try:
            return self._written(prepared, commit, started)
        except (Py4JJavaError, PySparkException) as error:
            if not self.flow.reread or not refused(error):
                raise
        log.warning("batch %d of %s has a timestamp that Spark cannot read", commit.number, self.flow.name)
        checkpoint = Path(self.flow.checkpoint(self._lakehouse))
        again = self.flow.reread(prepared.sparkSession, checkpoint, commit.number)
        return self._written(self.flow.prepare(again), commit, started)

    def _written(self, prepared: DataFrame, commit: Commit, started: datetime) -> Mapping[str, Any]:
        judge = self.flow.judge
        rows = self._fetched(prepared, commit.number)
        if rows is not None:
            rows = judge.to_table(rows, self._judges) if judge else rows
            return self._write_fetched(rows, prepared.sparkSession, commit, started)
        lines = judge.to_frame(prepared) if judge else prepared
        lines.persist()
        try:
            return self._write(lines, commit, started)
        finally:
            lines.unpersist()

    def _fetched(self, prepared: DataFrame, number: int) -> pa.Table | None:
        """The batch, where it is known to be small enough to be here."""
        rows = self.flow.rows(Path(self.flow.checkpoint(self._lakehouse)), number)
        if rows is None or rows > self._most_fetched:
            return None
        try:
            fetched = self.flow.fetch(prepared)
        except (Py4JJavaError, PySparkException) as error:
            # How long its rows are only shows now. The limit is there for that.
            if "spark.driver.maxResultSize" not in str(error):
                raise
            fetched = None
        if fetched is None:
            log.info("batch %d of %s has few rows, but long ones: Spark keeps them", number, self.flow.name)
        return fetched

    def _write_fetched(
        self, rows: pa.Table, spark: SparkSession, commit: Commit, started: datetime
    ) -> Mapping[str, Any]:
        """A batch that fits comes here as it is: what is made of it then needs no Spark job."""
        repeated = None
        if self._deliveries and has_ids(rows):
            repeated = self._deliveries.repeated(spark.createDataFrame(rows.select(list(NEEDS))))
        if repeated:
            rows = left_of(rows, repeated)
        plan = self.flow.plan(rows)
        acts = [partial(sink.write_fetched, self._store, rows, commit) for sink in plan.sinks]
        with self._all_done(acts):
            account = self._ledger.count_here(rows, len(repeated or ())) if self._ledger else None
        return self._accounted(plan, account, started, commit)

    def _write(self, lines: DataFrame, commit: Commit, started: datetime) -> Mapping[str, Any]:
        """By Spark, a batch of any size that it keeps in memory."""
        repeated = self._deliveries.repeated(lines) if self._deliveries else None
        if repeated:
            lines = without(lines, repeated)
        plan = self.flow.plan(lines)
        first, *rest = plan.sinks
        urgent = self._urgent(first, lines, commit)
        with self._all_done([urgent, *(partial(s.write, self._store, lines, commit) for s in rest)]):
            account = self._ledger.count(lines, len(repeated or ())) if self._ledger else None
        return self._accounted(plan, account, started, commit)

    @contextmanager
    def _all_done(self, acts: Sequence[Callable[[], None]]) -> Iterator[None]:
        """Does them in threads, the first one first, beside what stands in the block."""
        futures = [self._threads.submit(self._committed, act) for act in acts]
        try:
            yield
        finally:
            # Whatever fails: the gate must not be let go of while others still commit.
            wait(futures)
        for future in futures:
            future.result()

    def _accounted(
        self, plan: Plan, account: Account | None, started: datetime, commit: Commit
    ) -> Mapping[str, Any]:
        crash_point(f"{self.flow.name}:before-ledger")
        if not (self._ledger and account):
            return plan.facts
        self._ledger.commit(account, started, commit)
        return account_facts(account)

    def _urgent(self, sink: Sink, prepared: DataFrame, commit: Commit) -> Callable[[], None]:
        """The rest of the urgent sink's work, after its rows have been computed."""
        if isinstance(sink, Upsert) and self._store.committed(sink.table, commit.writer) < commit.number:
            return partial(sink.commit, self._store, sink.incoming(prepared), commit)
        return partial(sink.write, self._store, prepared, commit)

    def _committed(self, act: Callable[[], None]) -> None:
        act()
        crash_point(f"{self.flow.name}:between-tables")
