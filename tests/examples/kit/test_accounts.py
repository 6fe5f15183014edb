"""Accounts of a job's batches: exact with dead letters, with Spark's state, and after kills; checked before a start."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.kit import run
from examples.kit.job import Job, Sources
from examples.kit.load import Event, as_json, send
from examples.kit.results import Results, once
from tests import processes
from tests.examples.kit.test_run import COUNTS, counting_job, counts, done, produce
from tidemark.contract.quality_tables import ACCOUNTS, PROGRESS
from tidemark.contract.store import Commit
from tidemark.errors import TableError
from tidemark.kafka import client as kafka
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings
from tidemark.stream.query import Query

_RUN = """
import sys
from examples.kit.run import run_job
from tests.examples.kit.test_run import counting_job
from tidemark.settings import load
run_job(counting_job(sys.argv[1]), load({"home": sys.argv[2], "bootstrap_servers": sys.argv[3]}))
"""


@pytest.fixture
def home(broker: Settings, tmp_path: Path) -> Settings:
    settings = broker.changed(home=tmp_path / "home")
    prepare_home(settings)
    return settings


def sums(settings: Settings, flow: str) -> tuple[int, int, int]:
    """Received, accepted and rejected records of a flow, whose batches are in the accounts once each."""
    rows = [row for row in Results(settings).table(ACCOUNTS).to_pylist() if row["flow"] == flow]
    assert [row["batch_id"] for row in sorted(rows, key=lambda row: row["batch_id"])] == [*range(len(rows))]
    assert all(row["received"] == row["accepted"] + row["rejected"] + row["duplicate"] for row in rows)
    return tuple(sum(row[name] for row in rows) for name in ("received", "accepted", "rejected"))  # type: ignore[return-value]


def produce_bad(job: Job, settings: Settings, *values: bytes) -> None:
    send([Event(0, job.inputs[0].topic, value) for value in values], settings.kafka, threading.Event())


def test_accepted_events_and_dead_letters(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    with run.running(job, spark, home) as runtime:
        produce(job, home, "abba")
        produce_bad(job, home, b"{broken", as_json({"letter": "two"}))
        runtime.catch_up()
        produce(job, home, "c")
        produce_bad(job, home, b"")
        runtime.catch_up()
    letters = once(Results(home).messages(job.inputs[0].dead_letters))
    assert sums(home, f"{job.name}.counts") == (8, sum(counts(home).values()), len(letters)) == (8, 5, 3)
    progress = Results(home).table(PROGRESS)
    assert pc.sum(progress["rows"]).as_py() == 8
    assert pc.unique(progress["flow"]).to_pylist() == [f"{job.name}.counts"]
    assert pc.max(progress["freshness_seconds"]).as_py() > 0


def stateful_job(name: str) -> Job:
    """Keeps one event of each letter in Spark's state, and hands no other on."""
    job = counting_job(name)

    def queries(sources: Sources) -> Sequence[Query]:
        def write(batch: DataFrame, commit: Commit) -> None:
            batch.collect()

        letters = sources.events(job.inputs[0])
        return [Query("first", lambda: letters.dropDuplicates(["letter"]), write, state_partitions=1)]

    return replace(job, queries=queries, tables=(), outputs=())


def test_a_query_with_state_accounts_for_what_it_read(spark: SparkSession, home: Settings) -> None:
    job = stateful_job(f"job-{uuid4()}")
    with run.running(job, spark, home) as runtime:
        produce(job, home, "aabbaa")
        produce_bad(job, home, b"{broken")
        runtime.catch_up()
    produce(job, home, "abc")
    done(job, spark, home)
    assert sums(home, f"{job.name}.first") == (10, 9, 1)


def test_a_killed_job_accounts_for_each_record_once(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    for topic, partitions in job.topics().items():
        kafka.ensure_topic(home.kafka, topic, partitions=partitions)
    produce(job, home, "abba" * 50)
    produce_bad(job, home, b"{broken", b"{", b"")
    # After the tables, and after the accounts of the same batch.
    for point in ("before-ledger", "before-checkpoint"):
        killed = processes.run(
            [sys.executable, "-c", _RUN, job.name, str(home.home), home.kafka.bootstrap_servers],
            env={**os.environ, "TIDEMARK_CRASH_AT": f"{job.name}.counts:{point}"},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        assert counts(home) == {"a": 100, "b": 100}
        produce(job, home, "c")
    done(job, spark, home)
    assert counts(home) == {"a": 100, "b": 100, "c": 2}
    assert sums(home, f"{job.name}.counts") == (205, 202, 3)


@pytest.mark.parametrize("table", [COUNTS, ACCOUNTS], ids=lambda table: table.name)
def test_a_table_that_lost_its_newest_batch_is_an_error(
    spark: SparkSession, home: Settings, table: object
) -> None:
    job = counting_job(f"job-{uuid4()}")
    with run.running(job, spark, home) as runtime:
        for letters in "ab":
            produce(job, home, letters)
            runtime.catch_up()
    log = home.tables / table.name.replace(".", "/") / "_delta_log"  # type: ignore[attr-defined]
    max(log.glob("*.json")).unlink()
    with pytest.raises(TableError, match=f"{table.name} ends with batch"), run.running(job, spark, home):  # type: ignore[attr-defined]
        pass


def test_a_table_that_lost_everything_is_an_error(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    with run.running(job, spark, home) as runtime:
        produce(job, home, "a")
        runtime.catch_up()
    file = next((home.tables / "letters/counts").glob("*.parquet"))
    file.rename(file.with_suffix(".away"))
    with (
        pytest.raises(TableError, match=r"1 files of letters\.counts are missing"),
        run.running(job, spark, home),
    ):
        pass
    file.with_suffix(".away").rename(file)
    (home.tables / "letters/counts").rename(home.home / "away")
    with (
        pytest.raises(TableError, match=r"letters\.counts has no batch of flow"),
        run.running(job, spark, home),
    ):
        pass
