"""Savepoints of a home with a job: taken while it runs, restored elsewhere, continued, recounted."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from examples.kit import run
from examples.kit.changes import FollowedTable, changes
from examples.kit.example import Example, recount
from examples.kit.job import Job, Sources
from examples.kit.load import Load, send
from examples.kit.results import Results
from tests.conftest import QUICK_JVM
from tests.examples.kit.test_accounts import sums
from tests.examples.kit.test_run import COUNTS, counting_job, counts, done, produce
from tidemark.cli import tidemark
from tidemark.contract.store import Commit
from tidemark.contract.table import Change, Table
from tidemark.errors import HomeBusyError, TableError
from tidemark.home import Home
from tidemark.local import broker as embedded
from tidemark.local.directories import prepare_home
from tidemark.operate.savepoints import savepoints
from tidemark.operate.upkeep import maintain
from tidemark.service.savepoints import make_savepoint, restore_savepoint
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.stream import lock
from tidemark.stream.query import Query


@pytest.fixture
def home(broker: Settings, tmp_path: Path) -> Settings:
    settings = broker.changed(home=tmp_path / "home")
    prepare_home(settings)
    return settings


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A broker without the records of other tests of the examples."""
    home = tmp_path_factory.mktemp("broker")
    settings = Settings.of(
        home=home, broker_port=0, broker_java_options=QUICK_JVM, derive_interval_seconds=0.5
    )
    with embedded.running(settings) as there:
        yield there


# The one has state of Spark's, the other a query that follows the changes of a table.
@pytest.mark.slow
@pytest.mark.parametrize("name, flow", [("sensors", "sequences"), ("recommendations", "sessions")])
def test_a_restored_home_goes_on_exactly(
    spark: SparkSession, own_broker: Settings, tmp_path: Path, name: str, flow: str
) -> None:
    home = own_broker.changed(home=tmp_path / "home")
    prepare_home(home)
    example: Example = importlib.import_module(f"examples.{name}.example").EXAMPLE
    load = Load(seed=7, rate=100, seconds=12, late=0.2)
    events = [event._replace(at=0) for event in example.events(load)]
    third = len(events) // 3
    with run.running(example.job, spark, home) as runtime:
        send(events[:third], home.kafka, threading.Event())
        runtime.catch_up()
        send(events[third : 2 * third], home.kafka, threading.Event())
        make_savepoint(home, "middle")  # in the middle of whatever it does
        runtime.catch_up()
    fork = home.changed(home=tmp_path / "fork")
    restore_savepoint(home, "middle", fork, None, other_key=False)
    accounted = sums(fork, f"{example.job.name}.{flow}")[0]
    assert third <= accounted <= 2 * third

    with run.running(example.job, spark, fork) as runtime:
        send(events[2 * third :], home.kafka, threading.Event())
        runtime.catch_up()
    assert recount(example, load, Results(fork)) == []
    bad = sum(bool(event.reason) for event in events)
    assert sums(fork, f"{example.job.name}.{flow}") == (len(events), len(events) - bad, bad)


def test_the_command_and_what_it_covers(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")
    with run.running(job, spark, home) as runtime:
        produce(job, home, "abba")
        runtime.catch_up()

    def tidemark_savepoint(*arguments: str) -> None:
        result = CliRunner().invoke(tidemark, ["savepoint", *arguments, "--home", str(home.home)])
        assert result.exit_code == 0, result.output

    tidemark_savepoint("create", "four")
    (savepoint,) = savepoints(home)
    assert set(savepoint.versions) == {COUNTS.name, "quality.accounts", "quality.progress"}
    topic = job.inputs[0].topic
    assert {topic: sum(savepoint.offsets[topic].values())} == {topic: 4} and set(savepoint.offsets) == {topic}

    produce(job, home, "cc")
    done(job, spark, home)
    assert counts(home) == {"a": 2, "b": 2, "c": 2}
    with lock.only_one(home, job.name), pytest.raises(HomeBusyError, match="a job is running"):
        restore_savepoint(home, "four", None, None, other_key=False)
    tidemark_savepoint("restore", "four")
    assert counts(home) == {"a": 2, "b": 2}
    done(job, spark, home)
    assert counts(home) == {"a": 2, "b": 2, "c": 2}


def test_results_in_another_system_are_not_covered(spark: SparkSession, home: Settings) -> None:
    job = counting_job(f"job-{uuid4()}")

    def queries(sources: Sources) -> Sequence[Query]:
        return [replace(query, elsewhere="Redis") for query in job.queries(sources) if query.write]

    with run.running(replace(job, queries=queries), spark, home) as runtime:
        produce(job, home, "a")
        runtime.catch_up()
    with pytest.raises(TableError, match=f"not the results of {job.name}.counts in Redis"):
        make_savepoint(home, "no")
    assert savepoints(home) == []


def test_changes_that_nobody_has_read_yet_are_in_a_savepoint(
    spark: SparkSession, home: Settings, tmp_path: Path
) -> None:
    given = {each.name: getattr(COUNTS, each.name) for each in fields(COUNTS) if each.init}
    followed = FollowedTable(**{**given, "name": "letters.followed"})
    seen: list[tuple[str, int]] = []

    def note(batch: DataFrame, commit: Commit) -> None:
        rows = batch.where("_change_type <> 'update_preimage'").orderBy("_commit_version")
        seen.extend((row["_change_type"], row["count"]) for row in rows.collect())

    def queries(sources: Sources) -> Sequence[Query]:
        return [Query("follow", partial(changes, sources, followed), note, reads=(followed,))]

    job = Job(f"job-{uuid4()}", 1, (), queries, (followed,))
    store = DeltaRsStore(lakehouse_of(home))
    store.ensure(followed)
    for number in range(4):
        row = {"letter": ["a"], "count": [number], "updated_at": [datetime.now(UTC)]}
        store.upsert(followed, Change(pa.table(row)), Commit("test", number))
        if number == 1:
            done(job, spark, home)
    make_savepoint(home, "behind")
    fork = home.changed(home=tmp_path / "fork")
    restore_savepoint(home, "behind", fork, None, other_key=False)
    seen.clear()
    done(job, spark, fork)
    assert seen == [("update_postimage", 2), ("update_postimage", 3)]


def letters_table(name: str) -> Table:
    columns = tuple(column for column in COUNTS.columns if column.name != "count")
    return replace(COUNTS, name=f"letters.{name}", kind="append", columns=columns)


def test_upkeep_knows_how_far_each_of_two_tables_was_read(spark: SparkSession, home: Settings) -> None:
    many, few = letters_table("many"), letters_table("few")
    lakehouse = lakehouse_of(home)
    store = DeltaRsStore(lakehouse)

    def rows() -> DataFrame:
        read = [spark.readStream.format("delta").load(lakehouse.path(table)) for table in (many, few)]
        return read[0].unionByName(read[1])

    both = Query("both", rows, lambda batch, commit: None, reads=(many, few))
    job = Job(f"job-{uuid4()}", 1, (), lambda sources: [both], (many, few))
    row = pa.table({"letter": ["a"], "updated_at": [datetime.now(UTC)]})
    for table, commits in ((many, 20), (few, 10)):
        store.ensure(table)
        for _ in range(commits):
            store.append_arrow(table, row)
    done(job, spark, home)
    for table in (many, few):
        store.append_arrow(table, row)
    done(job, spark, home)
    readers = list(run.checkpoints(job, home).iterdir())
    upkept = maintain(
        replace(
            Home.of(home.changed(retention_days=""), (many, few)),
            readers={many.name: readers, few.name: readers},
        )
    )
    assert [(entry.files_before, entry.files_after) for entry in upkept] == [(21, 1), (11, 1)]
