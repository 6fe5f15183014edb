"""The process of a job: its queries on the pipeline's runtime, with the same checks and the same upkeep."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from examples.kit.job import Job, Sources
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.errors import TableError
from tidemark.home import Home
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.operate.losses import Loss, missing_files
from tidemark.operate.upkeep_schedule import keep
from tidemark.settings import Settings
from tidemark.signals import stop_signals
from tidemark.spark import spark_session
from tidemark.store import deltalog
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import lock
from tidemark.stream.query import Query
from tidemark.stream.run import Runtime
from tidemark.stream.table_state import committed_tables

_READY_SECONDS = 0.1


def run_job(job: Job, settings: Settings) -> None:
    """Runs the job on the home until the process is told to stop (SIGTERM, SIGINT), or, after `ask_to_finish`, until
    the input in its sources is processed.

    Raises TidemarkError as soon as a query fails, HomeBusyError if the job runs on the home already.
    """
    # The metrics port of a home belongs to its pipeline.
    settings = located(settings).changed(metrics_port=-1)
    with stop_signals() as stopping, lock.only_one(settings, job.name):
        if job.slots and not settings.spark.master:
            settings = settings.changed(master=f"local[{max(job.slots, os.cpu_count() or 1)}]")
        # Spark's default: alerts are to come within milliseconds.
        spark = spark_session(settings, job.name, {"spark.sql.streaming.pollingDelay": "10ms"})
        home = home_of(job, spark, settings)
        runtime, queries = _runtime(job, home)
        readers: dict[str, list[Path]] = {}
        for query in queries:
            for table in query.reads:
                readers.setdefault(table.name, []).append(query.checkpoint(home.lakehouse))
        upkeep = keep(replace(home, settings=_limits(settings, job), readers=readers))
        announce = partial(_announce, job, settings, runtime, queries)
        runtime.run(stopping, beside=[upkeep, announce], finish=finish_file(job, settings).exists)


@contextmanager
def running(job: Job, spark: SparkSession, settings: Settings) -> Iterator[Runtime]:
    """Runs the job's queries at least until the block ends; `catch_up` awaits their results."""
    runtime, _ = _runtime(job, home_of(job, spark, settings))
    with runtime.started():
        yield runtime


def home_of(job: Job, spark: SparkSession, settings: Settings) -> Home:
    """The home of the job, with all of its tables."""
    return replace(Home.of(settings, job.all_tables), session=spark)


def record_file(job: Job, settings: Settings) -> Path:
    """The run record of the job's process; its `state` is "running" once all queries are."""
    return settings.run_directory / f"{job.name}.json"


def ask_to_finish(job: Job, settings: Settings) -> None:
    """Lets the job's process end when it has processed the current input of its sources."""
    finish_file(job, settings).touch()


def finish_file(job: Job, settings: Settings) -> Path:
    """A file that exists when the job's process must finish."""
    return settings.run_directory / f"{job.name}.finish"


def ready_file(job: Job, settings: Settings) -> Path:
    """A file that exists once the job's process has finished a first batch of every query, and what the queries start
    beside themselves is at work."""
    return settings.run_directory / f"{job.name}.ready"


def all_ready(job: Job, settings: Settings) -> bool:
    """Whether the job and its followers are ready."""
    return all(ready_file(each, settings).exists() for each in (job, *job.followers))


def checkpoints(job: Job, settings: Settings) -> Path:
    """The directory of the checkpoints of the job's queries."""
    return settings.checkpoints / job.name


def all_committed(job: Job, settings: Settings) -> bool:
    """Whether at least one query has committed a batch, and every query that has begun one has, too."""
    begun = [path.parent.parent for path in checkpoints(job, settings).glob("*/offsets/0")]
    return bool(begun) and all((query / "commits" / "0").exists() for query in begun)


def _announce(
    job: Job, settings: Settings, runtime: Runtime, queries: Sequence[Query], stopping: threading.Event
) -> None:
    """Creates the ready file in time; runs beside the queries."""
    while not stopping.wait(_READY_SECONDS):
        if runtime.settled() and all(query.ready() for query in queries):
            ready_file(job, settings).touch()
            return


def _runtime(job: Job, home: Home) -> tuple[Runtime, list[Query]]:
    """Creates the job's topics and tables. Returns its runtime, and its queries."""
    settings, known = home.settings, committed_tables(home)
    for topic, partitions in job.topics().items():
        kafka.ensure_topic(settings.kafka, topic, partitions=partitions)
    for table in home.tables:
        home.store.ensure(table, table.reader_properties(settings))
    queries = job.all_queries(Sources(home.spark, settings, home.store))
    whole = partial(_require_whole, home, queries, known)
    return Runtime(home, queries, record=job.name, require_whole=whole), queries


def _require_whole(home: Home, queries: Sequence[Query], known: Collection[str]) -> None:
    """Raises TableError unless the tables have every batch that was accounted for, and all of their files. `known` are
    the upsert tables of earlier starts: others are new."""
    lakehouse = home.lakehouse
    if lakehouse.can.durable:
        return
    store, lost = DeltaRsStore(lakehouse), list[str]()
    for query in queries:
        writer = deltalog.writer(query.name, query.checkpoint(lakehouse))
        accounted = store.committed(ACCOUNTS, writer) if writer else -1
        holds = {table: store.committed(table, writer) for table in query.commits if table.name in known}
        lost += [str(Loss(t, query.name, n, accounted)) for t, n in holds.items() if n < accounted]
    for table in home.tables:
        missing = missing_files(lakehouse, store, table)
        if missing:
            lost.append(
                f"{len(missing)} files of {table.name} are missing or cut short, such as {missing[0]}"
            )
    if lost:
        raise TableError(
            f"tables have lost what was committed: {'; '.join(lost)}",
            "Restore a savepoint of the home, or begin a new home.",
        )


def _limits(settings: Settings, job: Job) -> Settings:
    """The settings without the retention of the home's other tables."""
    names = {table.name for table in job.all_tables}
    limits = [
        part for part in settings.upkeep.retention_days.split(",") if part.partition("=")[0].strip() in names
    ]
    return settings.changed(retention_days=",".join(limits))
