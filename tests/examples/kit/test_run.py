"""A job on a real broker: exactly once, resumable, and clear when it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.kit import run
from examples.kit.events import Events
from examples.kit.job import Job, Sources
from examples.kit.load import Event, as_json, send
from examples.kit.mergeable import mergeable
from examples.kit.results import Results, once
from examples.kit.sinks import Upsert
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule
from tidemark.contract.store import Commit
from tidemark.contract.table import Column, Table
from tidemark.errors import TableError
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.stream.query import Query

COUNTS = Table(
    "letters.counts", "One row per letter.", "upsert", ("letter",), (
        Column("letter", "string", "Letter."),
        Column("count", "long", "How often it came."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ), time="", reads="",
)  # fmt: skip


ONE_LETTER = RejectingRule("one_letter", column("letter").length() == 1, "letter", "One letter.")


def counting_job(name: str, fail_on: str = "") -> Job:
    """Counts letters into a table, and writes them in upper case to a topic."""
    letters = Events(f"{name}-letters", "letter string", rules=(ONE_LETTER,))
    output = f"{name}-upper"

    def queries(sources: Sources) -> Sequence[Query]:
        counts = Upsert(
            COUNTS,
            lambda b: b.groupBy("letter").agg(F.count("*").alias("count")),
            mergeable(("letter",), ["count"], {}),
            lambda *_: (),
        )

        def write(batch: DataFrame, commit: Commit) -> None:
            counts.write(sources.store, batch, commit)
            if fail_on and batch.where(F.col("letter") == fail_on).count():
                raise TableError(f"letter {fail_on} has no place", "Send others.")

        upper = sources.events(letters).select(
            F.lit(output).alias("topic"), F.upper("letter").cast("binary").alias("value")
        )
        return [
            Query("counts", partial(sources.events, letters), write, commits=(COUNTS,)),
            Query("upper", lambda: upper),
        ]

    return Job(name, 1, (letters,), queries, (COUNTS,), (output,))


@pytest.fixture
def home(broker: Settings, tmp_path: Path) -> Settings:
    settings = broker.changed(home=tmp_path / "home")
    settings.logs.mkdir(parents=True)
    settings.run_directory.mkdir()
    return settings


def produce(job: Job, settings: Settings, letters: str) -> None:
    topic = job.inputs[0].topic
    values = [as_json({"letter": letter}) for letter in letters]
    send([Event(0, topic, value) for value in values], settings.kafka, threading.Event())


def done(job: Job, spark: SparkSession, settings: Settings) -> None:
    """Has the job do everything that is in its sources."""
    with run.running(job, spark, settings) as runtime:
        runtime.catch_up()


def counts(settings: Settings) -> dict[str, int]:
    return {row["letter"]: row["count"] for row in Results(settings).table(COUNTS).to_pylist()}


def test_a_job_goes_on_where_it_was_stopped(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    with run.running(job, spark, home) as runtime:
        produce(job, home, "abba")
        runtime.catch_up()
    assert counts(home) == {"a": 2, "b": 2}

    produce(job, home, "ab?!")
    send([Event(0, job.inputs[0].topic, b"{broken")], home.kafka, threading.Event())
    done(job, spark, home)
    assert counts(home) == {"a": 3, "b": 3, "?": 1, "!": 1}
    upper = [message.value.decode() for message in Results(home).messages(job.outputs[0])]
    assert sorted(upper) == sorted("ABBAAB?!")
    (letter,) = once(Results(home).messages(job.inputs[0].dead_letters))
    assert (letter.value, letter.headers["reason"]) == (b"{broken", "not_json")


def test_a_failing_write_is_reported_as_what_it_was_and_its_batch_counts_once(
    spark: SparkSession, home: Settings
) -> None:
    name = f"job-{uuid4()}"
    failing = counting_job(name, fail_on="x")
    with run.running(failing, spark, home) as runtime:
        produce(failing, home, "ax")
        with pytest.raises(TableError, match="letter x has no place"):
            runtime.catch_up()
    # What the batch had committed before it failed is not added again.
    done(counting_job(name), spark, home)
    assert counts(home) == {"a": 1, "x": 1}


def test_a_stop_lets_the_batch_at_work_get_done(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    at_work, done = threading.Event(), []

    def queries(sources: Sources) -> Sequence[Query]:
        def write(batch: DataFrame, commit: Commit) -> None:
            if batch.count():
                at_work.set()
                time.sleep(0.5)
                done.append(commit.number)

        return [Query("slow", partial(sources.events, job.inputs[0]), write)]

    with run.running(replace(job, queries=queries), spark, home):
        produce(job, home, "a")
        assert at_work.wait(60)
    assert len(done) == 1


def test_what_a_job_needs_is_there_before_it_starts(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    assert job.topics() == {
        f"{job.name}-letters": 2,
        f"{job.name}-letters.dead-letters": 1,
        f"{job.name}-upper": 2,
    }
    # Asked before the start: a query commits its first batch, an empty one, when it comes to it.
    assert not run.all_committed(job, home)
    with run.running(job, spark, home) as runtime:
        assert wait_until(runtime.settled, 60)
    assert counts(home) == {}
    produce(job, home, "ab")
    done(job, spark, home)
    assert run.all_committed(job, home)
    # Started again, it has nothing to read.
    with run.running(job, spark, home) as runtime:
        assert wait_until(runtime.settled, 60)


def test_a_query_keeps_its_state_in_as_many_parts_as_it_says(
    home: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    def read(batch: DataFrame, commit: Commit) -> None:
        assert batch.count() == 3

    spark.range(9).write.parquet(str(tmp_path / "numbers"))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before != "1"

    def counted() -> DataFrame:
        numbers = spark.readStream.schema("id long").parquet(str(tmp_path / "numbers"))
        return numbers.groupBy(F.col("id") % 3).count()

    def queries(sources: Sources) -> Sequence[Query]:
        return [
            Query(f"parts-{parts}", counted, read, output_mode="complete", state_partitions=parts)
            for parts in (None, 1)
        ]

    done(Job("counted", 1, (), queries), spark, home)
    for parts, expected in ((None, before), (1, "1")):
        state = run.checkpoints(Job("counted", 1, (), queries), home) / f"parts-{parts}-v1" / "state" / "0"
        result = [path for path in state.iterdir() if path.name.isdigit()]
        assert str(len(result)) == expected
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
