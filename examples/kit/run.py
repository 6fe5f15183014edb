"""The process of a job: starts its queries, monitors them, stops them cleanly."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.kit.job import Job, Query, Sources
from examples.kit.timers import await_timers
from tidemark.contract.store import Commit
from tidemark.kafka import client as kafka
from tidemark.local.process import prepare_home, write_record
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream.checkpoint import clear_unfinished
from tidemark.stream.crash import crash_point
from tidemark.stream.failures import explain

_POLL_SECONDS = 0.1
# Seconds that a stop waits for batches, because Spark logs a trace of ten thousand lines for an interrupted one.
_BATCH_SECONDS = 2.0


def run_job(job: Job, settings: Settings) -> None:
    """Runs the job on the home until the process is told to stop (SIGTERM, SIGINT), or, after a call of
    `ask_to_finish`, until all records in its sources are processed.

    Raises TidemarkError as soon as a query fails.
    """
    from tidemark.spark import spark_session

    with _stop_signals() as stopping:
        prepare_home(settings)
        if job.slots and not settings.master:
            settings = dataclasses.replace(settings, master=f"local[{max(job.slots, os.cpu_count() or 1)}]")
        spark = spark_session(settings, job.name)
        running = start(job, spark, settings)
        write_record(record_file(job, settings), os.getpid(), state="running")
        running.wait(stopping, finish_file(job, settings).exists)


def record_file(job: Job, settings: Settings) -> Path:
    """The run record of the job's process; its `state` is "running" when all queries run."""
    return settings.run_directory / f"{job.name}.json"


def ask_to_finish(job: Job, settings: Settings) -> None:
    """Lets the job's process end when it has processed the current records of its sources."""
    finish_file(job, settings).touch()


def finish_file(job: Job, settings: Settings) -> Path:
    """A file that exists when the job's process must finish."""
    return settings.run_directory / f"{job.name}.finish"


def checkpoints(job: Job, settings: Settings) -> Path:
    """The directory of the checkpoints of the job's queries."""
    return settings.checkpoints / job.name


def all_committed(job: Job, settings: Settings) -> bool:
    """Whether at least one query has committed a batch, and every query that has begun one has, too."""
    begun = [path.parent.parent for path in checkpoints(job, settings).glob("*/offsets/0")]
    return bool(begun) and all((query / "commits" / "0").exists() for query in begun)


def start(job: Job, spark: SparkSession, settings: Settings) -> Running:
    """Creates the job's topics and tables and starts its queries."""
    house = lakehouse.of(settings)
    store = DeltaRsStore(house)
    for topic, partitions in job.topics().items():
        kafka.ensure_topic(settings, topic, partitions=partitions)
    for table in job.tables:
        store.ensure(table)
    running = Running(settings)
    for query in job.all_queries(Sources(spark, settings, store)):
        running.start(
            query, f"{job.name}.{query.name}", house.checkpoint(f"{job.name}/{query.name}", job.version)
        )
    return running


@contextlib.contextmanager
def _shuffled_in(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Sets shuffle partitions for the start of a query, which copies the session's settings."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, str(partitions or before))
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


class _EndingError(Exception):
    """No further batch may begin."""


class Running:
    """The queries of a running job."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._queries: list[StreamingQuery] = []
        self._timer_seconds: dict[str, float] = {}
        self._failure: Exception | None = None
        self._ending = False
        self._at_work = 0
        self._rest = threading.Condition()

    def start(self, query: Query, name: str, checkpoint: str) -> None:
        """Starts one query under `name`."""
        clear_unfinished(Path(checkpoint))
        writer = (
            query.rows.writeStream.queryName(name)
            .option("checkpointLocation", checkpoint)
            .outputMode(query.output_mode)
            .trigger(**query.trigger)
            .options(**query.options)
        )
        if query.write is None:
            writer = writer.format("kafka").options(**kafka.spark_options(self._settings))
        else:
            writer = writer.foreachBatch(partial(self._batch, query, name))
        with _shuffled_in(query.rows.sparkSession, query.state_partitions):
            self._queries.append(writer.start())
        if query.timer_seconds is not None:
            self._timer_seconds[name] = query.timer_seconds

    def wait(self, stopping: threading.Event, finish: Callable[[], bool] = lambda: False) -> None:
        """Waits until told to stop or to finish. Raises TidemarkError if a query fails."""
        while not stopping.wait(_POLL_SECONDS):
            self._raise_failure()
            if finish():
                self.finish()
                return
        self.stop()

    def finish(self) -> None:
        """Processes the records in the sources, then stops. A query may read tables of earlier queries."""
        try:
            for query in self._queries:
                if query.name in self._timer_seconds:
                    await_timers(query, self._timer_seconds[query.name])
                else:
                    query.processAllAvailable()
        except Exception:
            self._raise_failure()
            raise
        finally:
            self.stop()

    def stop(self) -> None:
        """Stops between batches if the current ones end soon; an interrupted batch runs again next time."""
        with self._rest:
            self._ending = True
            self._rest.wait_for(lambda: not self._at_work, _BATCH_SECONDS)
        # A signal to the whole process group ends the JVM first. Then nothing is left to stop.
        with contextlib.suppress(Py4JError, ConnectionError):
            for query in self._queries:
                query.stop()

    def _batch(self, query: Query, name: str, rows: DataFrame, number: int) -> None:
        assert query.write is not None
        with self._rest:
            if self._ending:
                raise _EndingError(f"the query is ending: batch {number} runs again next time")
            self._at_work += 1
        try:
            run = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            query.write(rows, Commit(f"{name}/{run}", number))
            crash_point(f"{name}:before-checkpoint")
        except Exception as error:
            # Spark would pass it on as text only.
            self._failure = error
            raise
        finally:
            with self._rest:
                self._at_work -= 1
                self._rest.notify_all()

    def _raise_failure(self) -> None:
        for query in self._queries:
            failure = query.exception()
            if failure is not None:
                raise explain(query.name or "", self._failure or failure, self._settings)


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    stopping = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in numbers}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
