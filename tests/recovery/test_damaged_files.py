"""Checkpoints and tables that lost something: they recover exactly, or say what is damaged and what to do."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests import processes
from tests.pipeline.harness import assert_equal, fresh, produce
from tests.pipeline.recount import recount
from tests.recovery.ground import newest, truncate
from tests.recovery.killing import Pair, traffic
from tidemark.errors import TableError
from tidemark.kafka import client as kafka
from tidemark.pipeline import Pipeline
from tidemark.service.forget import forget_visitor
from tidemark.service.quality import check_quality
from tidemark.service.rebuild import rebuild_table
from tidemark.service.repair import repair_tables
from tidemark.service.run import run_pipeline
from tidemark.service.savepoints import make_savepoint
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings

Damage = Callable[[Settings], object]


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    lines = traffic(seed=41, lines=1_500)
    return [("shop", b"no log line") if number % 50 == 0 else pair for number, pair in enumerate(lines)]


@pytest.fixture(scope="module")
def whole(
    broker: Settings, spark: SparkSession, pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """A home some batches on, with lines waiting in Kafka."""
    settings = fresh(broker, tmp_path_factory.mktemp("whole"), batch_lines=300)
    for part in (pairs[:600], pairs[600:900]):
        produce(settings, part)
        run_pipeline(settings, once=True)
    produce(settings, pairs[900:])
    return settings


@pytest.fixture
def settings(whole: Settings, tmp_path: Path) -> Settings:
    """A copy of that home, to be damaged."""
    shutil.copytree(whole.home, tmp_path / "home")
    return whole.changed(home=tmp_path / "home")


def _checkpoint(flow: str, file: str) -> Callable[[Settings], Path]:
    def find(settings: Settings) -> Path:
        place = settings.checkpoints / f"{flow}-v1" / file
        return newest(place) if place.is_dir() else place

    return find


def truncated(find: Callable[[Settings], Path], keep: int) -> Damage:
    return lambda settings: truncate(find(settings), keep)


def lose(find: Callable[[Settings], Path]) -> Damage:
    def act(settings: Settings) -> None:
        path = find(settings)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return act


def _checkpoint_directory(flow: str) -> Callable[[Settings], Path]:
    return lambda settings: settings.checkpoints / f"{flow}-v1"


@pytest.mark.parametrize(
    "damage, names",
    [
        (
            truncated(_checkpoint("requests", "offsets"), 0),
            "flow requests is damaged: .*/offsets/\\d+ cannot be read",
        ),
        (
            truncated(_checkpoint("requests", "offsets"), 40),
            "flow requests is damaged: .*/offsets/\\d+ cannot be read",
        ),
        (lose(_checkpoint("requests", "offsets")), "flow requests is damaged: .*/offsets/\\d+ is missing"),
        (
            truncated(_checkpoint("activity", "commits"), 1),
            "flow activity is damaged: .*/commits/\\d+ cannot be read",
        ),
        (truncated(_checkpoint("requests", "topics.json"), 0), "topics.json, .* cannot be read"),
        (
            truncated(_checkpoint("requests", "metadata"), 7),
            "flow requests is damaged: .*/metadata cannot be read",
        ),
        (lose(_checkpoint("activity", "metadata")), "flow activity is damaged: .*/metadata is missing"),
        (lose(_checkpoint_directory("requests")), "flow requests has no checkpoint .* holds its batches"),
        (lose(_checkpoint_directory("activity")), "flow activity has no checkpoint .* holds its batches"),
    ],
    ids=lambda value: None if callable(value) else value.split(":")[-1].strip().replace(" .* ", " "),
)
def test_damaged_checkpoint_is_one_error_and_changes_nothing(
    settings: Settings, spark: SparkSession, damage: Damage, names: str
) -> None:
    before = versions(settings)
    damage(settings)
    with pytest.raises(TableError, match=names) as raised:
        run_pipeline(settings, once=True)
    assert "A damaged checkpoint" in raised.value.remedy
    assert versions(settings) == before


@pytest.mark.parametrize("flow", ["requests", "activity"])
def test_a_lost_note_that_a_batch_is_done_is_made_up_for(
    settings: Settings, spark: SparkSession, pairs: list[Pair], flow: str
) -> None:
    lose(_checkpoint(flow, "commits"))(settings)
    run_pipeline(settings, once=True)
    assert_equal(settings, recount(pairs))


def test_a_checkpoint_older_than_the_tables_is_refused(
    settings: Settings, spark: SparkSession, pairs: list[Pair]
) -> None:
    old = settings.checkpoints.with_name("old")
    shutil.copytree(settings.checkpoints, old)
    run_pipeline(settings, once=True)
    newer = settings.checkpoints.rename(settings.home / "newer")
    old.rename(settings.checkpoints)
    with pytest.raises(
        TableError, match=r"holds batch \d+ of flow requests, of which the checkpoint .* knows \d+ at most"
    ):
        run_pipeline(settings, once=True)
    shutil.rmtree(settings.checkpoints)
    newer.rename(settings.checkpoints)
    run_pipeline(settings, once=True)
    assert_equal(settings, recount(pairs))


def _log(table: str, back: int = 0) -> Callable[[Settings], Path]:
    def find(settings: Settings) -> Path:
        entries = sorted((settings.tables / table / "_delta_log").glob("*.json"))
        return entries[-1 - back]

    return find


def _garble(find: Callable[[Settings], Path]) -> Damage:
    return lambda settings: find(settings).write_bytes(b"\0" * find(settings).stat().st_size)


def _lose_data(table: str) -> Damage:
    return lambda settings: Path(
        DeltaTable(settings.tables / table).file_uris()[0].removeprefix("file://")
    ).unlink()


@pytest.mark.parametrize(
    "damage, table",
    [
        (truncated(_log("gold/visitors_by_country"), 100), "gold.visitors_by_country"),
        (_garble(_log("silver/requests")), "silver.requests"),
        (_garble(_log("quality/accounts")), "quality.accounts"),
        (lose(_log("gold/traffic", back=1)), "gold.traffic"),
        (lose(_log("gold/visitors_by_country")), "gold.visitors_by_country"),
        (lose(_log("silver/sessions")), "silver.sessions"),
        (_lose_data("quality/sites"), "quality.sites"),
        (_lose_data("silver/sessions"), "silver.sessions"),
        (_lose_data("silver/requests"), None),
    ],
    ids=[
        "entry cut short", "entry garbled", "accounts garbled", "entry lost in the middle", "last entry lost",
        "last entry of sessions lost", "data of sites lost", "data of sessions lost", "data of requests lost",
    ],
)  # fmt: skip
def test_damaged_table_is_one_error_that_names_it(
    settings: Settings, spark: SparkSession, damage: Damage, table: str | None
) -> None:
    if table is None:  # as long as nobody reads the file, nothing is wrong with the others
        lose(_checkpoint("activity", "commits"))(settings)
        table = "silver/requests"
    damage(settings)
    with pytest.raises(TableError, match=table) as raised:
        run_pipeline(settings, once=True)
    assert "damaged" in raised.value.remedy or "docs/operations.md" in raised.value.remedy


def versions(settings: Settings) -> dict[str, int]:
    return {
        str(log.parent.relative_to(settings.tables)): DeltaTable(log.parent).version()
        for log in settings.tables.glob("*/*/_delta_log")
        if log.parent.parent.name != "quality" or log.parent.name in ("accounts", "sites")
    }


@pytest.mark.parametrize("flow", ["requests", "activity"])
def test_a_first_batch_that_was_killed_while_it_was_planned_is_planned_again(
    flow: str, broker: Settings, spark: SparkSession, tmp_path: Path, pairs: list[Pair]
) -> None:
    settings = fresh(broker, tmp_path)
    checkpoint = settings.checkpoints / f"{flow}-v1"
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True)
    (checkpoint / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    (checkpoint / "offsets" / f".0.{uuid.uuid4()}.tmp").touch()
    produce(settings, pairs[:300])
    run_pipeline(settings, once=True)
    assert_equal(settings, recount(pairs[:300]))


def _lost_entry(settings: Settings, table: str, how: str) -> None:
    """As a power cut leaves a log: its newest entry is empty, or not there."""
    entry = _log(table)(settings)
    if how == "empty":
        truncate(entry, 0)
    else:
        entry.unlink()


_APPENDS = ("bronze/access_log", "silver/requests", "silver/rejected", "quality/accounts")


@pytest.mark.parametrize("how", ["empty", "lost"])
@pytest.mark.parametrize("table", [*_APPENDS, "gold/traffic", "quality/sites"])
def test_a_lost_newest_entry_is_one_error_that_names_the_table(
    settings: Settings, spark: SparkSession, table: str, how: str
) -> None:
    _lost_entry(settings, table, how)
    name = table.replace("/", r"\.")
    with pytest.raises(TableError, match=name) as raised:
        run_pipeline(settings, once=True)
    assert "tidemark repair" in raised.value.remedy
    for command in (
        lambda: make_savepoint(settings, "new"),
        lambda: forget_visitor(settings, visitor="someone", address=""),
    ):
        with pytest.raises(TableError, match=name):
            command()


def _empty_data(table: str) -> Damage:
    return lambda settings: truncate(
        Path(DeltaTable(settings.tables / table).file_uris()[0].removeprefix("file://")), 0
    )


def test_an_empty_data_file_is_found_before_anything_is_written(
    settings: Settings, spark: SparkSession
) -> None:
    before = versions(settings)
    _empty_data("bronze/access_log")(settings)
    with pytest.raises(TableError, match=r"bronze\.access_log at .* has lost data: 1 of its files"):
        run_pipeline(settings, once=True)
    assert versions(settings) == before


@pytest.mark.slow
def test_repair_brings_lost_entries_of_every_table_back(
    settings: Settings, spark: SparkSession, pairs: list[Pair]
) -> None:
    """As the machine's power went in the middle of a batch."""
    for table, how in zip(
        [*_APPENDS, "gold/visitors_by_country", "silver/sessions", "quality/sites"],
        ["empty", "lost", "lost", "lost", "empty", "empty", "lost"],
        strict=True,
    ):
        _lost_entry(settings, table, how)
    truncate(_log("gold/pages")(settings), 40)
    killed(settings, "repair:between", "repair")
    with pytest.raises(TableError, match=r"repair of .* was interrupted"):
        run_pipeline(settings, once=True)
    messages: list[str] = []
    repair_tables(settings, messages.append)
    assert "made again from Kafka" in "\n".join(messages)
    assert_equal(settings, recount(pairs))


def killed(settings: Settings, crash_at: str, *command: str) -> None:
    done = processes.run(
        [sys.executable, "-m", "tidemark", *command],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": crash_at},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_rebuild_that_a_table_has_lost_is_an_error_until_the_table_is_recomputed(
    settings: Settings, spark: SparkSession, pairs: list[Pair]
) -> None:
    Pipeline.of(settings).on(spark).rebuild().run(["gold.traffic", "gold.pages"])
    _lost_entry(settings, "gold/pages", "lost")
    with pytest.raises(TableError, match=r"^gold\.pages lost what the last rebuild") as raised:
        run_pipeline(settings, once=True)
    assert "tidemark repair" in raised.value.remedy
    repair_tables(settings, print)
    assert_equal(settings, recount(pairs))
    make_savepoint(settings, "whole-again")


def test_a_rebuild_of_silver_that_is_lost_is_refused_by_repair(
    settings: Settings, spark: SparkSession
) -> None:
    Pipeline.of(settings).on(spark).rebuild().run(["silver.requests"])
    _lost_entry(settings, "silver/requests", "lost")
    with pytest.raises(TableError, match=r"^silver\.requests lost what the last rebuild"):
        run_pipeline(settings, once=True)
    with pytest.raises(TableError, match=r"^silver\.requests cannot be repaired: it lost") as raised:
        repair_tables(settings, print)
    assert "Restore" in raised.value.remedy


def test_lost_accounts_are_reported_as_lost_and_repaired(
    settings: Settings, spark: SparkSession, pairs: list[Pair]
) -> None:
    shutil.rmtree(settings.tables / "quality" / "accounts")
    for command in (
        lambda: maintain_tables(settings),
        lambda: check_quality(settings),
        lambda: forget_visitor(settings, visitor="someone", address=""),
        lambda: rebuild_table(settings, "all", None, dry_run=True, report=lambda *_: None),
    ):
        with pytest.raises(TableError, match=r"table quality\.accounts at .* is lost") as raised:
            command()
        assert "tidemark repair" in raised.value.remedy
    repair_tables(settings, print)
    assert_equal(settings, recount(pairs))


def test_a_power_cut_at_the_end_of_a_rebuild(
    settings: Settings, spark: SparkSession, pairs: list[Pair]
) -> None:
    """The swap's journal is kept, the entries that it had made are lost or empty."""
    # Only the rebuild brings these back.
    for table in ("silver/sessions", "gold/traffic"):
        DeltaTable(settings.tables / table).delete("site = 'shop'")
    killed(settings, "swap:before-end@1", "rebuild", "silver.requests")
    _lost_entry(settings, "gold/traffic", "lost")
    _lost_entry(settings, "quality/sites", "empty")
    truncate(_log("silver/sessions")(settings), 40)
    with pytest.raises(TableError, match=r"table silver\.sessions at .* cannot be read") as raised:
        run_pipeline(settings, once=True)
    assert "A damaged table" in raised.value.remedy
    repair_tables(settings, print)
    assert_equal(settings, recount(pairs))


@pytest.mark.slow
def test_repair_makes_silver_from_bronze_and_says_what_nobody_has(
    whole: Settings, broker: Settings, spark: SparkSession, pairs: list[Pair], tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    produce(settings, pairs[:600])
    run_pipeline(settings, once=True)
    produce(settings, pairs[600:900])
    run_pipeline(settings, once=True)
    shutil.copytree(settings.home, tmp_path / "second")
    second = settings.changed(home=tmp_path / "second")
    # Kafka keeps nothing of what was read.
    admin = kafka.admin_client(settings.kafka)
    ends = kafka.end_offsets(settings.kafka, settings.kafka.topic)
    gone = [TopicPartition(settings.kafka.topic, partition, end) for partition, end in ends.items()]
    for future in admin.delete_records(gone).values():
        future.result(30)

    for table in ("silver/requests", "silver/rejected", "gold/traffic"):
        _lost_entry(settings, table, "lost")
    messages: list[str] = []
    repair_tables(settings, messages.append)
    again = "silver.rejected, silver.requests, gold.traffic: batch 1 was made again from bronze.access_log"
    assert again in "\n".join(messages)
    assert_equal(settings, recount(pairs[:900]))

    _lost_entry(second, "bronze/access_log", "lost")
    repair_tables(second, messages.append)
    assert re.search(r"batch 1: offsets \d+ to \d+ of partition \d .* are lost", "\n".join(messages))
    run_pipeline(second, once=True)
