"""The process of a job: its queries on the pipeline's runtime, with the same checks and the same upkeep."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from examples.kit.job import Job, Sources
from tidemark.kafka import client as kafka
from tidemark.operate.upkeep import keep
from tidemark.settings import Settings
from tidemark.spark import spark_session
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import lock
from tidemark.stream.query import Query
from tidemark.stream.run import Runtime, stop_signals


def run_job(job: Job, settings: Settings) -> None:
    """Runs the job on the home until the process is told to stop (SIGTERM, SIGINT), or, after `ask_to_finish`, until
    the input in its sources is processed.

    Raises TidemarkError as soon as a query fails, HomeBusyError if the job runs on the home already.
    """
    # The metrics port of a home belongs to its pipeline.
    settings = dataclasses.replace(settings, metrics_port=-1)
    with stop_signals() as stopping, lock.only_one(settings, job.name):
        if job.slots and not settings.master:
            settings = dataclasses.replace(settings, master=f"local[{max(job.slots, os.cpu_count() or 1)}]")
        house = lakehouse.of(settings)
        spark = spark_session(settings, job.name)
        queries = _queries(job, spark, settings)
        readers: dict[str, list[Path]] = {}
        for query in queries:
            for table in query.reads:
                readers.setdefault(table.name, []).append(query.checkpoint(house))
        runtime = Runtime(spark, settings, house, DeltaRsStore(house), job.tables, queries, record=job.name)
        upkeep = keep(settings, house, job.tables, readers)
        runtime.run(stopping, beside=[upkeep], finish=finish_file(job, settings).exists)


@contextmanager
def running(job: Job, spark: SparkSession, settings: Settings) -> Iterator[Runtime]:
    """Runs the job's queries at least until the block ends; `catch_up` awaits their results."""
    house = lakehouse.of(settings)
    queries = _queries(job, spark, settings)
    runtime = Runtime(spark, settings, house, DeltaRsStore(house), job.tables, queries, record=job.name)
    with runtime.started():
        yield runtime


def record_file(job: Job, settings: Settings) -> Path:
    """The run record of the job's process; its `state` is "running" once all queries are."""
    return settings.run_directory / f"{job.name}.json"


def ask_to_finish(job: Job, settings: Settings) -> None:
    """Lets the job's process end when it has processed the current input of its sources."""
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


def _queries(job: Job, spark: SparkSession, settings: Settings) -> list[Query]:
    """Creates the job's topics and tables, and returns its queries."""
    store = DeltaRsStore(lakehouse.of(settings))
    for topic, partitions in job.topics().items():
        kafka.ensure_topic(settings, topic, partitions=partitions)
    for table in job.tables:
        store.ensure(table)
    return job.all_queries(Sources(spark, settings, store))
