"""A lost or changed visitor key is an error; it is never replaced silently."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests import processes
from tests.fixtures.home import HOMES, unpack
from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_here, run_process
from tests.pipeline.recount import recount
from tests.recovery.killing import Pair, traffic
from tidemark import pipeline
from tidemark.cli import tidemark
from tidemark.errors import TableError
from tidemark.service.savepoints import make_savepoint
from tidemark.settings import Settings

ALL = [("run", "--once"), ("rebuild", "all"), ("rebuild", "all", "--dry-run"), ("rebuild", "silver.sessions"),
       ("forget", "--address", "192.0.2.1"), ("savepoint", "restore", "before"),
       ("savepoint", "restore", "before", "--home", "fork")]  # fmt: skip
KEPT = sorted(path.name for path in HOMES.glob("home-*.tar.gz"))


@pytest.fixture(scope="module")
def lines() -> list[Pair]:
    return traffic(seed=51, lines=600)


@pytest.fixture(scope="module")
def original(
    broker: Settings, spark: SparkSession, lines: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    settings = fresh(broker, tmp_path_factory.mktemp("key"))
    produce(settings, lines)
    run_here(spark, settings)
    make_savepoint(settings, "before")
    return settings


@pytest.fixture
def settings(original: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    shutil.copytree(original.home, tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    return original.changed(home=tmp_path / "home")


def key_file(settings: Settings) -> Path:
    return settings.home / "visitor.key"


def called(settings: Settings, *command: str) -> Result:
    return CliRunner().invoke(tidemark, command, env=settings.environment())


def visitors(settings: Settings) -> set[object]:
    return {row[0] for row in rows(settings, "silver.requests", ["visitor_id"])}


def versions(settings: Settings) -> list[int]:
    tables = [settings.tables / table.name.replace(".", "/") for table in pipeline.TABLES]
    return [DeltaTable(table).version() for table in tables]


@pytest.mark.parametrize("what", ["missing", "another", "named"])
def test_no_command_goes_on_without_the_key(settings: Settings, what: str) -> None:
    before, key = versions(settings), key_file(settings).read_bytes()
    changed = settings
    if what == "missing":
        key_file(settings).unlink()
    elif what == "another":
        key_file(settings).write_bytes(b"k" * 32)
    else:
        changed = settings.changed(visitor_key="another")
    message = "is missing" if what == "missing" else "is not the one that the tables in .* were made with"
    process = run_process(changed, once=False)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and output.count("\n") == 2, output
    assert message[:10] in output and "rebuild all --new-visitor-key" in output
    for command in ALL:
        refused = called(changed, *command)
        assert isinstance(refused.exception, TableError), (command, refused.output)
        with pytest.raises(TableError, match=message):
            raise refused.exception
    assert key_file(settings).exists() == (what != "missing") and not Path("fork").exists()
    assert versions(settings) == before
    key_file(settings).write_bytes(key)
    assert called(settings, "savepoint", "restore", "before").exit_code == 0


def test_a_rebuild_renews_every_id(settings: Settings, spark: SparkSession, lines: list[Pair]) -> None:
    before = visitors(settings)
    key_file(settings).unlink()
    part = called(settings, "rebuild", "silver.sessions", "--new-visitor-key")
    assert "rebuild all --new-visitor-key" in str(part.exception)
    foretold = called(settings, "rebuild", "all", "--new-visitor-key", "--dry-run")
    assert "without a visitor key" in str(foretold.exception) and not key_file(settings).exists()
    done = called(settings, "rebuild", "all", "--new-visitor-key")
    assert done.exit_code == 0, (done.output, done.exception)
    after = visitors(settings)
    assert len(after) == len(before) and not after & before
    assert {row[0] for row in rows(settings, "silver.sessions", ["visitor_id"])} <= after
    assert_equal(settings, recount(lines))
    run_here(spark, settings)
    assert_equal(settings, recount(lines))
    # The savepoint is of the key of before.
    assert "savepoints/before" in str(called(settings, "savepoint", "restore", "before").exception)
    assert called(settings, "savepoint", "restore", "before", "--new-visitor-key").exit_code == 0
    assert visitors(settings) == before
    assert "--new-visitor-key" in str(called(settings, "forget", "--address", "192.0.2.1").exception)


def test_a_home_of_before_adopts_its_key_and_misses_a_lost_one(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings, _ = unpack(KEPT[-1], broker, tmp_path)
    key = key_file(settings).read_bytes()
    key_file(settings).unlink()
    with pytest.raises(TableError, match="is missing"):
        run_here(spark, settings)
    # A rebuild that is killed must not make the new key the one of the old tables.
    killed = processes.run(
        [sys.executable, "-m", "tidemark", "rebuild", "all", "--new-visitor-key"],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": "rebuild:staging@1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL and key_file(settings).exists(), killed.stderr
    with pytest.raises(TableError, match="is not the one"):
        run_here(spark, settings)
    shutil.rmtree(settings.home)
    with_key, _ = unpack(KEPT[-1], broker, tmp_path / "again")
    run_here(spark, with_key)
    noted = json.loads((with_key.checkpoints / "states.json").read_text())["silver.requests"]
    assert "visitor key" in noted
    key_file(with_key).write_bytes(b"k" * 32)
    with pytest.raises(TableError, match="is not the one"):
        run_here(spark, with_key)
    key_file(with_key).write_bytes(key)
    run_here(spark, with_key)
