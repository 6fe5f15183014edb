"""A flow: a streaming query whose micro-batches run through the engine and commit several tables, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.aggregation import Aggregation, Newest
from tidemark.contract.quality_tables import SITES
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.engine import executors
from tidemark.engine.batches import Batch, Local, distributed
from tidemark.engine.work import ALL, Part, Work
from tidemark.home import Home
from tidemark.machine import judging_threads, spare_threads
from tidemark.stream.accounting import Account, Ledger
from tidemark.stream.changes import Known
from tidemark.stream.crash import crash_point
from tidemark.stream.deliveries import Deliveries, DeliveryIds
from tidemark.stream.following import Follower, catch_up
from tidemark.stream.merge import merge_into
from tidemark.stream.progress import account_facts
from tidemark.stream.query import Facts, Query
from tidemark.stream.sources import Source

_IDS = "delivery ids"
log = logging.getLogger("tidemark.stream")

# The steps of tables that follow others, by table; a commit of a batch returns them.
Steps = Mapping[str, Known]
Act = Callable[[], Steps]


@dataclass(frozen=True)
class Flow:
    """A flow: its source, work and tables.

    `version` changes when a checkpoint of the old query no longer fits. `prepare` is part of the streaming query, so
    Spark analyses it once, not once per batch. `work` says what is made of a batch, and `upserts` are the tables that
    its aggregations of the same names are merged into: those for `now` are begun before any other. `clocks`
    names the aggregation with the newest event time of each site; `known` returns those of earlier batches for the
    sites of a batch, if a table needs them.

    `accounted`: the batches are lines, which are accounted for, and whose repeated deliveries are left out. A batch of
    up to `local_rows` is processed by the driver, a larger one by executors. `followers` are tables made of tables that
    the flow commits; they are brought up to date at the end of each batch, and with `catch_up`. `schema`: of the
    prepared rows, as far as the work needs them.
    """

    name: str
    version: int
    source: Source
    prepare: Callable[[DataFrame], DataFrame]
    work: Work
    upserts: Sequence[tuple[Table, Aggregation]]
    clocks: str
    local_rows: int
    known: Callable[[Sequence[str]], Newest] = lambda sites: {}
    accounted: bool = False
    interval_seconds: float = 0.0
    followers: Sequence[Follower] = ()
    schema: pa.Schema | None = None

    def checkpoint(self, home: Home) -> Path:
        """The path of the query's checkpoint."""
        return Path(home.lakehouse.checkpoint(self.name, self.version))

    def query(self, home: Home) -> Query:
        """The flow's streaming query, whose batches go to the home's store."""
        # What it knows of the tables is read with the first batch: by then they are there, and checked.
        writer = cache(lambda: BatchWriter(self, home))
        return Query(
            name=self.name,
            rows=lambda: self.prepare(self.source.stream(home.spark)),
            write=lambda prepared, commit: writer().write(prepared, commit),
            version=self.version,
            trigger={"processingTime": f"{self.interval_seconds:g} seconds"},
            size=self.source.size,
            lag=self.source.lag,
            commits=(*(table for table, _ in self.upserts), *([SITES] if self.accounted else [])),
        )

    def warm_up(self, home: Home) -> None:
        """Has executors load what they need, if so many rows wait that they will process the first batch. That batch
        reports any error."""
        if self.schema is None:
            return
        with suppress(Exception):
            if (self.source.lag(self.checkpoint(home)) or 0) > self.local_rows:
                executors.warm_up(self.work, self.schema, home.spark)

    def catch_up(self, home: Home, known: Mapping[str, Known] = MappingProxyType({})) -> None:
        """Brings the followers to the newest versions of their sources, under the batch lock. `known` as in
        `tidemark.stream.following.catch_up`."""
        crash_point(f"{self.name}:before-followers")
        catch_up(self.followers, home, known=known)


class BatchWriter:
    """Runs one flow's batches through the engine and commits them to the home's store."""

    def __init__(self, flow: Flow, home: Home) -> None:
        self.flow = flow
        self._home = home
        self._store = store = home.store
        meaning = home.settings.meaning
        self._ledger = Ledger(store, flow.name, meaning.late_seconds) if flow.accounted else None
        self._deliveries = (
            Deliveries(store, home.lakehouse, home.graph.lines, home.graph.rejected, meaning.duplicate_days)
            if flow.accounted
            else None
        )
        self._threads = ThreadPoolExecutor(max_workers=6, thread_name_prefix=flow.name)
        self._spare = ThreadPoolExecutor(spare_threads(), thread_name_prefix=f"{flow.name}-spare")
        self._judges = ThreadPoolExecutor(judging_threads(), thread_name_prefix=f"{flow.name}-judge")

    def write(self, prepared: DataFrame, commit: Commit) -> Facts:
        """Commits a batch; tables that have its number skip it."""
        started = datetime.now(UTC)
        try:
            return self._written(prepared, commit, started)
        except (Py4JJavaError, PySparkException) as error:
            spark, checkpoint = prepared.sparkSession, self.flow.checkpoint(self._home)
            again = self.flow.source.again(error, spark, checkpoint, commit.number)
            if again is None:
                raise
        log.warning("batch %d of %s has a timestamp that Spark cannot read", commit.number, self.flow.name)
        return self._written(self.flow.prepare(again), commit, started)

    def _written(self, prepared: DataFrame, commit: Commit, started: datetime) -> Mapping[str, Any]:
        work = self.flow.work
        if self._ledger:
            counted = {SITES.name: (self._ledger.counts, ALL)}
            ids = {_IDS: (DeliveryIds(), Part("accepted"))} if self._deliveries else {}
            work = replace(work, aggregations={**work.aggregations, **counted, **ids})
        with self._batch_of(work, prepared, commit) as batch:
            return self._write(batch, prepared.sparkSession, commit, started)

    @contextmanager
    def _batch_of(self, work: Work, prepared: DataFrame, commit: Commit) -> Iterator[Batch]:
        """The batch in this process, where it is known to be small, else in executors."""
        fetched = self._fetched(prepared, commit.number)
        if fetched is not None:
            yield Local.of(work, fetched, self._judges)
            return
        label = f"{self.flow.name}-{commit.number:05d}"
        frame, read, schema = self.flow.source.spread(prepared)
        with distributed(work, frame, self._store, label, read, schema) as batch:
            yield batch

    def _fetched(self, prepared: DataFrame, number: int) -> pa.Table | None:
        rows = self.flow.source.rows(self.flow.checkpoint(self._home), number)
        if rows is None or rows > self.flow.local_rows:
            return None
        try:
            fetched = self.flow.source.fetch(prepared)
        except (Py4JJavaError, PySparkException) as error:
            # The size of the rows is known only now. The limit exists for this case.
            if "spark.driver.maxResultSize" not in str(error):
                raise
            fetched = None
        if fetched is None:
            log.info("batch %d of %s has few rows, but long ones: executors take it", number, self.flow.name)
        return fetched

    def _write(
        self, batch: Batch, spark: SparkSession, commit: Commit, started: datetime
    ) -> Mapping[str, Any]:
        repeated = self._deliveries.repeated(batch.partial(_IDS), spark) if self._deliveries else None
        if repeated:
            batch = batch.without(repeated)
        clocks = batch.partial(self.flow.clocks)
        newest = _newest(self.flow.known(clocks["site"].to_pylist()), clocks)
        acts: list[Act] = [
            *(
                partial(self._upsert, table, made.at(newest), batch, commit)
                for table, made in sorted(self.flow.upserts, key=lambda upsert: not upsert[0].now)
            ),
            *(partial(self._append, table, part, batch, commit) for table, part in self.flow.work.appends),
        ]
        # A small batch of a flow that may wait leaves cores to one that may not.
        waits = bool(self.flow.interval_seconds) and isinstance(batch, Local)
        with self._begun(acts, self._spare if waits else self._threads) as commits:
            account = Account.of(clocks, len(repeated or ())) if self._ledger else None
        if self.flow.followers:
            self.flow.catch_up(self._home, {k: v for done in commits for k, v in done.result().items()})
        crash_point(f"{self.flow.name}:before-ledger")
        if not (self._ledger and account):
            return _facts(clocks)
        self._ledger.commit(account, started, commit)
        return account_facts(account)

    def _append(self, table: Table, part: Part, batch: Batch, commit: Commit) -> Steps:
        if self._store.committed(table, commit.writer) < commit.number:
            batch.append(self._store, table, part, commit)
        return {}

    def _upsert(self, table: Table, made: Aggregation, batch: Batch, commit: Commit) -> Steps:
        """Merges the batch into a table. Returns the steps of the tables that follow it, by table."""
        if self._store.committed(table, commit.writer) >= commit.number:
            return {}
        existing, change = merge_into(self._store, table, made, batch.partial(table.name), commit)
        return {
            follower.table.name: {(commit.writer, commit.number): follower.step(existing, change)}
            for follower in self.flow.followers
            if follower.source.name == table.name
        }

    @contextmanager
    def _begun(self, acts: Sequence[Act], threads: Executor) -> Iterator[Sequence[Future[Steps]]]:
        """Calls the functions in threads, in this order, beside the block, and ends after all of them."""
        futures = [threads.submit(self._committed, act) for act in acts]
        try:
            yield futures
        finally:
            # After a failure, too: the lock must not be released while others still commit.
            wait(futures)
        for future in futures:
            future.result()

    def _committed(self, act: Act) -> Steps:
        steps = act()
        crash_point(f"{self.flow.name}:between-tables")
        return steps


def _newest(known: Newest, clocks: pa.Table) -> Newest:
    """The newest event time of each site of a batch, from earlier batches and this one."""
    found = dict(known)
    for row in clocks.select(["site", "newest_event_time"]).to_pylist():
        if row["newest_event_time"]:
            found[row["site"]] = max(
                row["newest_event_time"], found.get(row["site"], row["newest_event_time"])
            )
    return found


def _facts(clocks: pa.Table) -> Mapping[str, Any]:
    return {
        "rows": pc.sum(clocks["rows"]).as_py() or 0,
        "newest_event_time": pc.max(clocks["newest_event_time"]).as_py(),
        "newest_kafka_timestamp": pc.max(clocks["newest_ingested_at"]).as_py(),
    }
