"""Tables on a real S3 server: equal tables though the pipeline is killed, every command, one winner of each commit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests import processes
from tests.cluster.s3_server import SECRET, S3Server, s3_server
from tests.pipeline.harness import assert_equal, fresh, produce, received, rows, run_process
from tests.pipeline.recount import recount
from tidemark.errors import TableError
from tidemark.figures.open import open_reader
from tidemark.figures.query import query
from tidemark.local.process import wait_until
from tidemark.operate import savepoints
from tidemark.service.forget import forget_visitor
from tidemark.service.savepoints import make_savepoint, restore_savepoint
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.store.object_storage import LogRegister
from tidemark.traffic.stream import Traffic, blocks

LINES = 1_200
ROUNDS, WRITERS = 10, 6

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def s3(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(broker, tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


def on_s3(server: S3Server, broker: Settings, directory: Path) -> Settings:
    on_server = broker.changed(tables_location="s3a://lake", spark_options=server.spark_options)
    return fresh(on_server, directory, batch_lines=400, driver_memory="1g")


def traffic() -> list[tuple[str, bytes]]:
    generated = Traffic(start=1_780_000_200, rate=30, seconds=LINES // 30, seed=6, visitors=200, late=0.1)
    return [("default", line) for block in blocks(generated) for line in block.lines]


def command(settings: Settings, *arguments: str, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    return processes.run(
        [sys.executable, "-m", "tidemark", *arguments],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": crash_at},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def done(settings: Settings, *arguments: str) -> str:
    ended = command(settings, *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_equal_tables_though_the_pipeline_is_killed(s3: S3Server, broker: Settings, tmp_path: Path) -> None:
    pairs = traffic()
    settings = on_s3(s3, broker, tmp_path)
    produce(settings, pairs)

    first = run_process(settings, once=False)
    try:
        assert wait_until(lambda: first.poll() is not None or received(settings) > 0, 240, interval=0.05)
        assert first.poll() is None, first.communicate()[0]
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first_output, _ = first.communicate()
    assert 0 < received(settings) < len(pairs), "it was to be killed midway"

    again = run_process(settings)
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0, output
    expected = recount(pairs)
    assert_equal(settings, expected)
    dashboard = open_reader(settings.environment())
    counted = dashboard.arrow(query("gold/traffic", ["requests"]))
    (accepted,) = zip(*rows(settings, "quality.accounts", ["accepted"]), strict=True)
    assert dashboard.label == settings.lakehouse.tables_location
    assert sum(counted["requests"].to_pylist()) == sum(accepted) > 0

    (tmp_path / "other").mkdir()
    shutil.copy(settings.home / "visitor.key", tmp_path / "other")
    other = run_process(settings.changed(home=tmp_path / "other"))
    refused, _ = other.communicate(timeout=300)
    assert other.returncode == 1 and "has no checkpoint" in refused and "holds its batches" in refused, (
        refused
    )

    assert not settings.tables.exists(), "all tables are to be on S3"
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    shown = [first_output, output, refused, *(path.read_text("latin-1") for path in files)]
    assert not any(SECRET in text for text in shown)


@pytest.mark.slow
def test_rebuild_savepoints_forget_and_upkeep(s3: S3Server, broker: Settings, tmp_path: Path) -> None:
    """One home through all of them, each compared with the recomputation; the rebuild is killed in its swap."""
    pairs = traffic()
    settings = on_s3(s3, broker, tmp_path).changed(batch_lines=100)
    lakehouse = lakehouse_of(settings)

    def parquet(table: str) -> set[str]:
        return {
            name for name in lakehouse.files.sizes(lakehouse.directory(table)) if "_delta_log" not in name
        }

    produce(settings, pairs[:800])
    done(settings.changed(quality_interval_seconds=60), "run", "--once")
    assert_equal(settings, recount(pairs[:800]))
    checked = rows(settings, "quality.results", ["table", "severity", "success"])
    assert {"silver.requests", "gold.traffic"} <= {row[0] for row in checked}
    assert not [row for row in checked if row[1:] == ("critical", False)]
    done(settings, "quality")
    make_savepoint(settings, "middle")
    produce(settings, pairs[800:])
    done(settings, "run", "--once")
    expected = recount(pairs)
    assert_equal(settings, expected)

    assert min(len(parquet(name)) for name in ("bronze.access_log", "gold.visitors_by_country")) > 9
    for _ in range(2):  # the second deletes what the first has replaced
        maintain_tables(settings.changed(version_retention_seconds=1))
        time.sleep(1.1)
    assert max(len(parquet(name)) for name in ("bronze.access_log", "gold.visitors_by_country")) < 4
    assert_equal(settings, expected)
    with pytest.raises(TableError, match="checkpoints of the pipeline"):
        maintain_tables(settings.changed(home=tmp_path / "other"))

    killed = command(settings, "rebuild", "all", crash_at="swap:between-tables@3")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert "nothing differs" in done(settings, "rebuild", "all")  # it finishes the first one before
    assert_equal(settings, expected)
    assert not lakehouse.files.sizes(f"{lakehouse.files.base}/_swap"), "the staged tables are to go"

    fork = settings.changed(home=tmp_path / "fork", tables_location="")
    restore_savepoint(settings, "middle", fork, None, other_key=False)
    done(fork, "run", "--once")
    assert_equal(fork, expected)
    elsewhere = settings.changed(home=tmp_path / "other")
    with pytest.raises(TableError, match="has tables already"):
        restore_savepoint(settings, "middle", elsewhere, None, other_key=False)
    restore_savepoint(settings, "middle", None, None, other_key=False)
    assert_equal(settings, recount(pairs[:800]))
    savepoints.delete(settings, "middle")
    assert not lakehouse.files.sizes(f"{lakehouse.files.base}/_savepoints")

    (address, theirs) = Counter(rows(settings, "silver.requests", ["client_ip"])).most_common(1)[0]
    accepted = len(rows(settings, "silver.requests", ["offset"]))
    forgotten = forget_visitor(settings, visitor="", address=str(address[0]))
    assert forgotten.rows["silver.requests"] == theirs and not forgotten.files_left
    assert len(rows(settings, "silver.requests", ["offset"])) == accepted - theirs
    prefix = str(address[0]).encode() + b" "
    for name in parquet("bronze.access_log"):
        with lakehouse.files.system.open_input_file(
            f"{lakehouse.directory('bronze.access_log')}/{name}"
        ) as file:
            assert not any(value.startswith(prefix) for value in pq.read_table(file)["value"].to_pylist())


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


def test_one_of_several_writers_gets_a_version(s3: S3Server) -> None:
    path = "s3://lake/raced"
    write_deltalake(path, pa.table({"id": [0]}))
    with ThreadPoolExecutor(WRITERS) as threads:
        for round_ in range(1, ROUNDS + 1):
            tables = [DeltaTable(path) for _ in range(WRITERS)]
            assert sorted(threads.map(commit, tables)) == [False] * (WRITERS - 1) + [True]
            assert DeltaTable(path).version() == round_
    assert DeltaTable(path).to_pyarrow_table().num_rows == 1 + ROUNDS


def test_one_of_several_processes_gets_the_lease(s3: S3Server) -> None:
    def register() -> LogRegister:
        return LogRegister("s3a://lake/leased/_writer", s3.options)

    def note(holder: int) -> dict[str, str]:
        return {"id": f"{holder}", "what": "a pipeline", "host": "here", "home": f"/{holder}"}

    registers = [register() for _ in range(WRITERS)]
    assert [each.read() for each in registers] == [None] * WRITERS
    with ThreadPoolExecutor(WRITERS) as threads:
        won = list(threads.map(lambda n: registers[n].write(note(n)), range(WRITERS)))
    assert sorted(won) == [False] * (WRITERS - 1) + [True]
    holder, other = won.index(True), won.index(False)
    seen = registers[other].read()
    assert seen is not None and seen["id"] == str(holder)
    assert registers[holder].write(note(holder)), "the holder renews it"
    assert not registers[other].write(note(other)), "it was renewed since it was read"
    assert registers[other].read() != seen and registers[other].write(note(other))
    assert not registers[holder].write(note(holder)), "it was taken over"
    registers[other].clear()
    assert register().read() is None
