"""Tables on a real S3 server: equal tables though the pipeline is killed, and one winner of each commit."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from app.dashboard.query import query
from app.dashboard.reader import open_reader
from tests.cluster.s3_server import SECRET, S3Server, s3_server
from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_process
from tests.pipeline.recount import recount
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

LINES = 1_200
ROUNDS = 20

# A Spark driver with Tidemark's settings that commits versions of a table as it is told: a line of its input is a
# version and a pipe to read the commit from, a line of its output whether it got the version.
DRIVER = """
import sys
from py4j.protocol import Py4JJavaError
from tidemark import settings
from tidemark.spark import spark_session

spark = spark_session(settings.load())
jvm, hadoop = spark._jvm, spark._jsc.hadoopConfiguration()
log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, sys.argv[1])
scala = jvm.scala.jdk.javaapi.CollectionConverters
print("ready", flush=True)
for line in sys.stdin:
    version, pipe = line.split()
    lines = jvm.java.io.BufferedReader(jvm.java.io.FileReader(pipe)).lines().iterator()
    path = jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{int(version):020}.json")
    try:
        log.store().write(path, scala.asScala(lines), False, hadoop)
        print("won", flush=True)
    except Py4JJavaError as error:
        print(error.java_exception.getClass().getSimpleName(), flush=True)
"""
LOST = "FileAlreadyExistsException"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture
def s3(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with s3_server(broker, tmp_path / "s3") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def on_s3(server: S3Server, broker: Settings, directory: Path) -> Settings:
    return fresh(
        broker, directory, tables_location="s3a://lake/tidemark", spark_options=server.spark_options,
        batch_lines=400, driver_memory="1g",
    )  # fmt: skip


def received(settings: Settings) -> int:
    try:
        return sum(int(str(row[0])) for row in rows(settings, "quality.accounts", ["received"]))
    except TableNotFoundError:
        return 0


def test_equal_tables_though_the_pipeline_is_killed(s3: S3Server, broker: Settings, tmp_path: Path) -> None:
    made = Traffic(start=1_780_000_200, rate=30, seconds=LINES // 30, seed=6, visitors=200, late=0.1)
    pairs = [("default", line) for block in blocks(made) for line in block.lines]
    settings = on_s3(s3, broker, tmp_path)
    produce(settings, pairs)

    first = run_process(settings, once=False)
    try:
        assert wait_until(lambda: first.poll() is not None or received(settings) > 0, 240, interval=0.2)
        assert first.poll() is None, first.communicate()[0]
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        said, _ = first.communicate()
    assert 0 < received(settings) < len(pairs), "it was to be killed midway"

    again = run_process(settings)
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0, output
    expected = recount(pairs)
    assert_equal(settings, expected)
    dashboard = open_reader(settings.environment())
    counted = dashboard.arrow(query("gold/traffic", ["requests"]))
    (accepted,) = zip(*rows(settings, "quality.accounts", ["accepted"]), strict=True)
    assert dashboard.label == settings.tables_location
    assert sum(counted["requests"].to_pylist()) == sum(accepted) > 0

    other = run_process(dataclasses.replace(settings, home=tmp_path / "other"))
    refused, _ = other.communicate(timeout=300)
    assert other.returncode == 1 and "has no checkpoint" in refused and "holds its batches" in refused, (
        refused
    )

    assert not settings.tables.exists(), "all tables are to be on S3"
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    shown = [said, output, refused, *(path.read_text("latin-1") for path in files)]
    assert not any(SECRET in text for text in shown)


def commit(table: DeltaTable) -> bool:
    """Adds a row as the version after the one that `table` stands at, and no later one; whether that was to be had."""
    try:
        write_deltalake(
            table,
            pa.table({"id": [1]}),
            mode="append",
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except CommitFailedError:
        return False
    return True


class Driver:
    """A process that runs DRIVER on the table at `url`."""

    def __init__(self, settings: Settings, url: str, directory: Path) -> None:
        self._directory = directory
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, url], env={**os.environ, **settings.environment()},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    @contextmanager
    def committing(self, version: int) -> Iterator[None]:
        """Within it the driver has begun to write the version; on leaving it gets what to write."""
        pipe = self._directory / f"pipe-{version}"
        os.mkfifo(pipe)
        print(version, pipe, file=self._process.stdin, flush=True)
        with pipe.open("w", encoding="utf-8") as commit:  # waits until the driver reads
            yield
            commit.write(json.dumps({"commitInfo": {"timestamp": version, "operation": "of Spark"}}) + "\n")

    def end(self) -> None:
        self._process.communicate(timeout=60)


def test_one_of_two_writers_gets_a_version(s3: S3Server, broker: Settings, tmp_path: Path) -> None:
    path, waits = "s3://lake/raced", random.Random(4)
    write_deltalake(path, pa.table({"id": [0]}))

    def operation(version: int) -> str:
        file = tmp_path / f"s3/buckets/lake/raced/_delta_log/{version:020}.json"
        actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return next(str(action["commitInfo"]["operation"]) for action in actions if "commitInfo" in action)

    driver = Driver(on_s3(s3, broker, tmp_path), path.replace("s3://", "s3a://"), tmp_path)
    try:
        with driver.committing(1):
            time.sleep(3)  # a look whether the version is there would be over
            assert commit(DeltaTable(path))
        assert driver.answer() == LOST and operation(1) == "WRITE"

        behind = DeltaTable(path)
        with driver.committing(2):
            pass
        assert driver.answer() == "won" and not commit(behind) and operation(2) == "of Spark"

        for version in range(3, 3 + ROUNDS):
            table = DeltaTable(path)
            with driver.committing(version):
                pass
            time.sleep(waits.choice([0, waits.uniform(0, 0.03)]))
            ours, theirs = commit(table), driver.answer()
            assert theirs == (LOST if ours else "won")
            assert operation(version) == ("WRITE" if ours else "of Spark")
        assert DeltaTable(path).version() == 2 + ROUNDS
    finally:
        driver.end()
