"""A streaming query: its micro-batches run one at a time, under the batch lock, each with its own number.

Spark's checkpoint decides which input belongs to which batch. An interrupted batch runs again with the same
input and the same number. Each table's commit carries that number, so a table that has the batch skips it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.home import Home
from tidemark.kafka import client as kafka
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import lock
from tidemark.stream.batch_size import BatchSize
from tidemark.stream.crash import crash_point

# The facts of a batch for its report; None if there is none.
Facts = Mapping[str, Any] | None
Write = Callable[[DataFrame, Commit], Facts]
# How often a query is asked whether its timers have fired.
_TIMERS_POLL_SECONDS = 0.1
log = logging.getLogger("tidemark.stream")


@dataclass(frozen=True)
class Query:
    """A streaming query and where its rows go: to `write`, or to Kafka.

    `rows` makes the streaming frame. `write` gets each micro-batch with the `Commit` to hand on to the store: after a
    crash the same batch comes again under the same number, and a table that has it skips it. Whatever else `write`
    does must be harmless to repeat. Without `write`, the rows have the columns of a Kafka record (topic, value; key,
    headers). A crash may write them again, so give them a key by which readers recognise them.

    `version` changes when a checkpoint of the old query no longer fits; `checkpoint_name` names the checkpoint where
    the query's name does not. `trigger` is what `DataStreamWriter.trigger` takes, `options` are further options of
    the writer. `state_partitions`: the number of partitions of its state, fixed with the first batch; None: those of
    a shuffle. `timer_seconds`: for a query with timers of processing time, how long after the last input its last
    timer is due. `size` bounds the batches of a source that supports it; `lag` returns how many rows wait by the
    checkpoint. `commits` are the upsert tables that every batch commits, `reads` the tables that it streams.
    `elsewhere` names the system, such as a topic, that has the query's results together with its batch number, if
    these are not tables. With `own_positions` it has the query's offsets, too, and the checkpoint only follows.
    Batches of a `patient` query may take long: who waits for one holds up no other query.
    `ready` returns whether the query's helper processes run; `await_warm` returns when the modules that a batch needs
    are loaded, if loading began beside the start.
    """

    name: str
    rows: Callable[[], DataFrame]
    write: Write | None = None
    version: int = 1
    checkpoint_name: str = ""
    output_mode: str = "append"
    trigger: Mapping[str, str] = field(default_factory=lambda: {"processingTime": "200 milliseconds"})
    options: Mapping[str, str] = field(default_factory=dict)
    state_partitions: int | None = None
    timer_seconds: float | None = None
    size: BatchSize | None = None
    lag: Callable[[Path], int | None] = lambda checkpoint: None
    commits: tuple[Table, ...] = ()
    reads: tuple[Table, ...] = ()
    elsewhere: str = ""
    own_positions: bool = False
    patient: bool = False
    ready: Callable[[], bool] = lambda: True
    await_warm: Callable[[], None] = lambda: None

    @property
    def place(self) -> str:
        """The name of the checkpoint."""
        return self.checkpoint_name or self.name

    def checkpoint(self, lakehouse: Lakehouse) -> Path:
        """The path of the checkpoint."""
        return Path(lakehouse.checkpoint(self.place, self.version))


class _EndingError(Exception):
    """No further batch may begin."""


class Runner:
    """Runs the batches of one query. Calls `started` with its name and Spark's query, whenever that starts, and
    `batch_done` with its name, and number, start and facts of a batch."""

    query: StreamingQuery

    def __init__(
        self,
        query: Query,
        home: Home,
        *,
        started: Callable[[str, StreamingQuery], None],
        batch_done: Callable[[str, int, datetime, Mapping[str, Any]], None],
    ) -> None:
        self.definition = query
        self.failure: Exception | None = None
        self._home = home
        self._tell_started = started
        self._tell_batch_done = batch_done
        self._under_way = threading.Lock()
        self._once = False
        self._started = False
        self._ending = threading.Event()

    def warm_up(self) -> None:
        """Has the JVM load the code that reads the source, for a start that comes later."""
        with contextlib.suppress(Exception):  # the start reports any error
            self.definition.rows()

    def start(self, *, once: bool) -> None:
        """Starts `query`; with `once` it processes the current input and ends."""
        self._once = once
        wanted = self.definition
        trigger = {"availableNow": True} if once else dict(wanted.trigger)
        writer = (
            wanted.rows()
            .writeStream.queryName(wanted.name)
            .option("checkpointLocation", str(wanted.checkpoint(self._home.lakehouse)))
            .outputMode(wanted.output_mode)
            .options(**wanted.options)
            .trigger(**trigger)
        )
        if wanted.write is None:
            writer = writer.format("kafka").options(**kafka.spark_options(self._home.settings.kafka))
        else:
            writer = writer.foreachBatch(_weakly(self._batch))
        with _shuffled_in(self._home.spark, wanted.state_partitions):
            self.query = writer.start()
        self._started = True
        self._tell_started(wanted.name, self.query)

    @property
    def active(self) -> bool:
        """Whether the query has been started and has not ended."""
        with contextlib.suppress(Py4JError, ConnectionError):  # the JVM has ended
            return self._started and self.query.isActive
        return False

    @property
    def in_batch(self) -> bool:
        """Whether a batch is under way, so that the query has not ended. Does not ask the JVM."""
        return self._under_way.locked()

    @property
    def settled(self) -> bool:
        """Whether the query has finished a batch since its start, or has found nothing to read."""
        with contextlib.suppress(Py4JError, ConnectionError):  # the JVM has ended
            waits = self._started and self.query.status["message"].startswith("Waiting for")
            return self._started and (waits or self.query.lastProgress is not None)
        return False

    def catch_up(self) -> None:
        """Returns when the current input is processed and all timers due by then have fired."""
        if self.definition.timer_seconds is None:
            self.query.processAllAvailable()
        else:
            await_timers(self.query, self.definition.timer_seconds)

    def end(self) -> None:
        """Prevents further batches. A batch that Spark starts nevertheless fails, and runs again next time."""
        self._ending.set()

    def resize(self, stopping: threading.Event) -> None:
        """Restarts the query between two batches if another bound on the batches is better, because Spark fixes the
        bound when a query starts."""
        size = None if self._once else self.definition.size
        lines = size.better() if size else None
        if size is None or lines is None:
            return
        self._ending.set()
        while not self._under_way.acquire(timeout=0.2):
            if stopping.is_set():
                return
        self._under_way.release()
        if self.failure:  # a restarted query would hide the failure
            return
        self.query.stop()
        self._ending.clear()
        size.change(lines)
        log.info("a batch of %s has up to %d rows from now on", self.definition.name, lines)
        self.start(once=False)

    def _batch(self, rows: DataFrame, number: int) -> None:
        with self._under_way:
            try:
                self._run_batch(rows, number)
            except _EndingError:
                raise
            except Exception as error:
                # Spark would pass it on as text only.
                self.failure = error
                raise

    def _run_batch(self, rows: DataFrame, number: int) -> None:
        name, write = self.definition.name, self.definition.write
        assert write is not None
        run = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        self.definition.await_warm()
        started = datetime.now(UTC)
        with lock.batch(self._home.settings, patient=self.definition.patient):
            if self._ending.is_set():
                raise _EndingError(f"the query is ending: batch {number} runs again next time")
            facts = write(rows, Commit(f"{name}/{run}", number))
            crash_point(f"{name}:before-checkpoint")
        if facts is None:
            return
        if self.definition.size:
            self.definition.size.observe(facts["rows"], (datetime.now(UTC) - started).total_seconds())
        self._tell_batch_done(name, number, started, facts)


def _weakly(batch: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Calls a method as long as its object is used elsewhere: Spark's JVM keeps the function of an ended query until it
    collects its garbage, and with the object its Kafka clients and threads."""
    method = weakref.WeakMethod(batch)

    def call(rows: DataFrame, number: int) -> None:
        alive = method()
        if alive is None:
            raise _EndingError(f"the query has ended: batch {number} runs again next time")
        alive(rows, number)

    return call


@contextlib.contextmanager
def _shuffled_in(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Sets shuffle partitions for the start of a query, which copies the session's settings."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    if partitions:
        spark.conf.set(name, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def await_timers(query: StreamingQuery, seconds: float) -> None:
    """Returns when the query has seen no new input and then run for another `seconds`: a batch
    that began after that is done, so timers due by then have fired. Also returns when the query ends.

    `StreamingQuery.processAllAvailable` cannot be used: Spark runs batches without data for as long as
    a processor has processing-time timers, so it would never return.
    """
    quiet = _await_batch(query, datetime.now(UTC), idle=True)
    if quiet is not None:
        _await_batch(query, quiet + timedelta(seconds=seconds), idle=False)


def _await_batch(query: StreamingQuery, after: datetime, *, idle: bool) -> datetime | None:
    """Start of the first completed batch that began after a given moment; None if the query ends."""
    while query.isActive:
        for number, progress in enumerate(query.recentProgress):
            began = datetime.fromisoformat(progress["timestamp"])
            # The first batch of a run may repeat one of the previous run, with the rows chosen then.
            if began > after and not (idle and (progress["numInputRows"] or number == 0)):
                return began
        time.sleep(_TIMERS_POLL_SECONDS)
    return None
