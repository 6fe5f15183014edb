"""A savepoint restores every table, and the pipeline continues exactly from there."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests import processes
from tests.operate.alerts.scene import Scene
from tests.operate.test_upkeep import maintained
from tests.pipeline.harness import assert_equal, fresh, produce, run_here, run_process
from tests.pipeline.recount import recount
from tests.recovery.killing import Pair, await_running, traffic
from tidemark.cli import tidemark
from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.operate import status
from tidemark.operate.savepoints import delete, restore, savepoints
from tidemark.service.forget import forget_visitor
from tidemark.service.rebuild import rebuild_table
from tidemark.service.savepoints import make_savepoint
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings, load
from tidemark.stream import lock


@pytest.fixture(scope="module")
def lines() -> list[Pair]:
    return traffic(seed=31, lines=3_000)


@pytest.fixture(scope="module")
def at_a_savepoint(
    broker: Settings, spark: SparkSession, lines: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """A home with savepoint `middle` after 1,000 lines, that went on to 2,000 and was cleaned up."""
    settings = fresh(broker, tmp_path_factory.mktemp("saved"))
    produce(settings, lines[:1_000])
    run_here(spark, settings)
    make_savepoint(settings, "middle")
    produce(settings, lines[1_000:2_000])
    run_here(spark, settings)
    time.sleep(1.1)
    maintained(settings)
    return settings


@pytest.fixture
def saved(at_a_savepoint: Settings, tmp_path: Path) -> Settings:
    """A copy of that home."""
    shutil.copytree(at_a_savepoint.home, tmp_path / "home")
    return at_a_savepoint.changed(home=tmp_path / "home")


def test_restoring_goes_back_and_on(saved: Settings, spark: SparkSession, lines: list[Pair]) -> None:
    restore(saved, "middle")
    assert_equal(saved, recount(lines[:1_000]))
    run_here(spark, saved)  # reads what Kafka has after the savepoint once more
    assert_equal(saved, recount(lines[:2_000]))
    restore(saved, "middle")  # and again
    assert_equal(saved, recount(lines[:1_000]))


def test_a_fork_is_a_second_pipeline(
    saved: Settings, spark: SparkSession, lines: list[Pair], tmp_path: Path
) -> None:
    fork = saved.changed(home=tmp_path / "fork")
    (saved.home / "formats").mkdir()
    (saved.home / "formats" / "mine.toml").write_text("layout = '$time $status $client_ip'\n")
    restore(saved, "middle", fork)
    assert_equal(fork, recount(lines[:1_000]))
    assert_equal(saved, recount(lines[:2_000]))
    assert (fork.home / "visitor.key").read_bytes() == (saved.home / "visitor.key").read_bytes()
    assert (fork.home / "formats" / "mine.toml").read_text() == "layout = '$time $status $client_ip'\n"
    assert saved.kafka.topic in (fork.home / "tidemark.toml").read_text()
    run_here(spark, fork)
    assert_equal(fork, recount(lines[:2_000]))
    with pytest.raises(TableError, match="has tables already"):
        restore(saved, "middle", fork)


def test_a_fork_has_the_files_that_its_settings_name(tmp_path: Path) -> None:
    origin, fork = tmp_path / "origin", tmp_path / "fork"
    elsewhere = tmp_path / "blog.txt"
    files = {"robots/shop.txt": "User-agent: *", "data/networks/cdn.txt": "new", "formats/mine/a.txt": "text"}
    for name, text in {**files, str(elsewhere): "User-agent: x"}.items():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(text)
    (origin / "tidemark.toml").write_text(
        'bootstrap_servers = "localhost:1"\n'
        f'[sites.shop]\nrobots = "robots/shop.txt"\n[sites.blog]\nrobots = "{elsewhere}"\n'
    )
    settings = load({"home": str(origin)})
    Scene.of(settings)
    make_savepoint(settings, "all")
    restore(settings, "all", load({"home": str(fork)}))
    assert {name: (fork / name).read_text() for name in files} == files
    assert load({"home": str(fork)}).sites == settings.sites


def test_taken_from_a_running_pipeline_it_is_a_consistent_snapshot(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    pairs = traffic(seed=32, lines=2_000)
    process = run_process(settings, once=False)
    try:
        await_running(settings, process)
        for start in range(0, 2_000, 200):
            produce(settings, pairs[start : start + 200])
            time.sleep(0.1)
            if start == 1_000:
                make_savepoint(settings, "middle")
        with pytest.raises(HomeBusyError):
            restore(settings, "middle")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    restore(settings, "middle")
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))


@pytest.mark.slow
def test_a_killed_restore_is_repeated(saved: Settings, spark: SparkSession, lines: list[Pair]) -> None:
    """Each restore finds what the kill before has left behind."""
    for point in ("restore:prepared@1", "restore:between@1", "restore:between@2", "restore:before-end@1"):
        assert killed(saved, point, "savepoint", "restore", "middle")
        if point != "restore:prepared@1":
            with pytest.raises(TableError, match="Repeat it"), lock.only_one(saved):
                pass
            refused: list[Callable[[], object]] = [
                lambda: delete(saved, "middle"),
                lambda: make_savepoint(saved, "late"),
                lambda: rebuild_table(saved, "all", None, dry_run=False, report=lambda *progress: None),
                lambda: forget_visitor(saved, visitor="", address="192.0.2.1"),
                lambda: maintain_tables(saved, at_once=True),
            ]
            for command in refused:
                with pytest.raises(TableError, match="Repeat it"):
                    command()
            assert "Repeat it" in status.describe(saved)["unfinished"]
    restore(saved, "middle")
    assert_equal(saved, recount(lines[:1_000]))
    run_here(spark, saved)
    assert_equal(saved, recount(lines[:2_000]))


@pytest.mark.slow
@pytest.mark.parametrize("point", ["savepoint:create", "savepoint:before-done"])
def test_a_killed_creation_leaves_no_savepoint(saved: Settings, point: str) -> None:
    assert killed(saved, point, "savepoint", "create", "late")
    assert [savepoint.name for savepoint in savepoints(saved)] == ["middle"]
    make_savepoint(saved, "late")
    assert [savepoint.name for savepoint in savepoints(saved)] == ["middle", "late"]


def killed(settings: Settings, point: str, *command: str) -> bool:
    done = processes.run(
        [sys.executable, "-m", "tidemark", *command],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": point},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    return True


def test_restored_with_other_partitions(
    broker: Settings, spark: SparkSession, lines: list[Pair], tmp_path: Path
) -> None:
    """From two to four to one, with batches in executors: the tables are those of one go."""
    settings, before = fresh(broker, tmp_path, local_rows=0), spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for number, partitions in enumerate((2, 4, 1), start=1):
            if number > 1:
                make_savepoint(settings, f"before-{partitions}")
                restore(settings, f"before-{partitions}", partitions=partitions)
                settings = settings.changed(
                    shuffle_partitions=load({"home": settings.home}).spark.shuffle_partitions
                )
                assert settings.spark.shuffle_partitions == partitions
            spark.conf.set("spark.sql.shuffle.partitions", partitions)  # as a session is made with
            produce(settings, lines[(number - 1) * 1_000 : number * 1_000])
            run_here(spark, settings)
            assert_equal(settings, recount(lines[: number * 1_000]))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_what_it_says_and_refuses(saved: Settings, tmp_path: Path) -> None:
    (savepoint,) = savepoints(saved)
    assert sum(savepoint.offsets[saved.kafka.topic].values()) == 1_000
    with pytest.raises(TableError, match="already"):
        make_savepoint(saved, "middle")
    for name in ("", "../up", ".hidden", "a/b"):
        with pytest.raises(SettingError):
            make_savepoint(saved, name)
    with pytest.raises(TableError, match="no savepoint other"):
        restore(saved, "other")
    with pytest.raises(TableError, match="no tables yet"):
        make_savepoint(saved.changed(home=tmp_path / "empty"), "first")
    delete(saved, "middle")
    assert savepoints(saved) == []
    with pytest.raises(TableError, match="no savepoint middle"):
        delete(saved, "middle")


def test_the_commands(saved: Settings, lines: list[Pair]) -> None:
    def call(*arguments: str) -> str:
        done = CliRunner().invoke(tidemark, [*arguments], env=saved.environment(), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    call("savepoint", "create", "now")
    assert [line.split()[0] for line in call("savepoint", "list").splitlines()] == ["middle", "now"]
    (saved.home / "tidemark.toml").write_text('# ours\nlog_level = "info"\n')
    for partitions in ("4", "1"):
        result = call("savepoint", "restore", "middle", "--state-partitions", partitions)
        assert f"shuffle_partitions = {partitions} from now on" in result
    written = (saved.home / "tidemark.toml").read_text()
    assert written == 'shuffle_partitions = 1\n# ours\nlog_level = "info"\n'
    assert_equal(saved, recount(lines[:1_000]))
    assert "deleted" in call("savepoint", "delete", "now")
