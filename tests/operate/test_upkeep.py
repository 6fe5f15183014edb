"""Upkeep beside the flows: fewer files, fewer old versions, no changed row."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql import SparkSession

from silver import rejected
from tests.pipeline.harness import assert_equal, fresh, produce, run_here, run_process
from tests.pipeline.recount import recount
from tests.processes import gone, in_background
from tests.recovery.killing import await_running, traffic
from tidemark.contract.quality_tables import ACCOUNTS, PROGRESS, SITES
from tidemark.contract.table import Table
from tidemark.errors import SettingError
from tidemark.home import Home
from tidemark.local.process import wait_until
from tidemark.operate.retention import retention_days
from tidemark.operate.upkeep import Done
from tidemark.operate.upkeep_schedule import keep
from tidemark.pipeline import TABLES
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.stream import lock
from tidemark.stream.lock import appending


def maintained(settings: Settings, **changes: object) -> dict[str, Done]:
    """Maintains with everything that may go gone at once; what was done by table."""
    for table in (ACCOUNTS, SITES):  # what has none is no home with tables
        DeltaRsStore(lakehouse_of(settings)).ensure(table)
    changes = {"version_retention_seconds": 1, **changes}
    done = maintain_tables(settings.changed(**changes))
    return {entry.table: entry for entry in done}


def files(settings: Settings, table: str) -> int:
    return len(list((settings.tables / table.replace(".", "/")).glob("*.parquet")))


def log_entries(settings: Settings, table: str) -> int:
    return len(list((settings.tables / table.replace(".", "/") / "_delta_log").glob("*.json")))


def optimized(settings: Settings, table: str) -> int:
    """The newest version of a table that is a compaction, -1 without one."""
    history = DeltaTable(settings.tables / table.replace(".", "/")).history()
    return max((each["version"] for each in history if each["operation"] == "OPTIMIZE"), default=-1)


def test_compacts_and_vacuums_between_runs_without_changing_a_row(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path, batch_lines=200)
    pairs = traffic(seed=3, lines=3_000)
    produce(settings, pairs[:2_400])
    run_here(spark, settings)
    expected = recount(pairs[:2_400])
    assert_equal(settings, expected)
    names = ("bronze.access_log", "silver.requests", "gold.visitors_by_country")
    assert min(files(settings, name) for name in names) >= 12
    first = maintained(settings)  # compacts; what it replaced is too young to be deleted
    time.sleep(1.1)
    second = maintained(settings)
    for name in names:
        assert second[name].files_after == files(settings, name) <= 3
        assert first[name].files_deleted + second[name].files_deleted >= 9
        assert first[name].bytes_freed + second[name].bytes_freed > 0
    assert_equal(settings, expected)
    produce(settings, pairs[2_400:])
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))


def test_leaves_what_a_flow_has_yet_to_read(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path, batch_lines=200)
    pairs = traffic(seed=4, lines=4_000)
    produce(settings, pairs[:2_000])
    run_here(spark, settings)
    assert maintained(settings)["silver.requests"].files_after == 1
    produce(settings, pairs[2_000:])
    run_here(spark, settings, slice(1))
    for _ in range(2):
        done = maintained(settings)
        time.sleep(1.1)
    # Of the files that the second flow has yet to read none may be touched.
    assert done["silver.requests"].files_after == 11
    assert done["bronze.access_log"].files_after == 1
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))
    maintained(settings)
    assert maintained(settings)["silver.requests"].files_after == 1


def test_files_are_compacted_once_while_a_flow_lags(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """The second flow stays at a version whose files the first upkeep has replaced."""
    settings = fresh(broker, tmp_path, batch_lines=200)
    pairs = traffic(seed=6, lines=3_000)
    produce(settings, pairs[:200])
    run_here(spark, settings)
    maintained(settings)  # configures the table, which is a change of its own
    produce(settings, pairs[200:2_000])
    run_here(spark, settings)
    produce(settings, pairs[2_000:])
    run_here(spark, settings, slice(1))
    for compacted in (True, False, False):
        before = optimized(settings, "silver.requests")
        skipped = maintained(settings)["silver.requests"].skipped
        assert (optimized(settings, "silver.requests") > before) == compacted, skipped
        assert ("yet to read" in skipped) == (not compacted)
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))


def test_a_flow_that_never_ran_gets_everything(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path, batch_lines=500)
    pairs = traffic(seed=5, lines=2_000)
    produce(settings, pairs)
    run_here(spark, settings, slice(1))
    assert "yet to read" in maintained(settings)["silver.requests"].skipped
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))


def test_beside_a_live_pipeline_nothing_is_lost_and_the_log_stays_short(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path, batch_lines=200)
    pairs = traffic(seed=6, lines=3_000)
    process = run_process(settings.changed(maintain_interval_seconds=0.5), once=False)
    try:
        await_running(settings, process)
        for start in range(0, 1_500, 100):
            produce(settings, pairs[start : start + 100])
            time.sleep(0.05)
            if start % 500 == 0:
                maintained(settings)
                assert process.poll() is None, process.communicate()[0]

        # From now on the pipeline's own upkeep is the only one. Its process is killed once.
        assert wait_until(lambda: bool(in_background("upkeep", process.pid)), 60)
        [child] = in_background("upkeep", process.pid)
        # It lowers its priority itself, once Python runs.
        assert wait_until(lambda: child.nice() > psutil.Process(process.pid).nice(), 60)
        child.kill()
        child.wait(60)
        before = optimized(settings, "silver.requests")
        produce(settings, pairs[1_500:])
        assert wait_until(lambda: optimized(settings, "silver.requests") > before, 60)
        assert wait_until(lambda: bool(in_background("upkeep", process.pid)), 60)
        assert child not in in_background("upkeep", process.pid)
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    output, _ = process.communicate(timeout=60)
    assert "upkeep failed, the next one tries again: the process for upkeep ended with status -9" in output
    assert output.count("upkeep failed") == 1
    # Spark's JVM and the process for upkeep.
    assert len(family) >= 2
    assert gone((each.pid for each in family), 60)
    run_here(spark, settings)
    assert_equal(settings, recount(pairs))
    time.sleep(1.1)
    done = maintained(settings)
    for name in ("gold.traffic", "silver.sessions", "gold.visitors_by_country"):
        assert files(settings, name) == done[name].files_after


def test_a_vacuum_that_meets_other_commits_is_done_again_or_left_for_the_next_time(home: Settings) -> None:
    lakehouse = lakehouse_of(home)
    DeltaRsStore(lakehouse).ensure(PROGRESS)
    path = lakehouse.path(PROGRESS)
    schema = pa.schema([field.with_nullable(True) for field in PROGRESS.arrow_schema])
    row = pa.Table.from_pylist([{}], schema=schema).cast(PROGRESS.arrow_schema)
    maintained(home)
    done = threading.Event()

    def rewrite() -> None:
        while not done.wait(0.1):
            with suppress(CommitFailedError):
                write_deltalake(path, row, mode="overwrite")

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        reports: list[Done] = []
        deadline = time.monotonic() + 60
        while sum(report.files_deleted for report in reports) < 50 and time.monotonic() < deadline:
            reports.append(maintained(home)["quality.progress"])
    finally:
        done.set()
        writer.join()
    assert sum(report.files_deleted for report in reports) >= 50
    assert all(not report.skipped or "concurrent" in report.skipped for report in reports)
    assert DeltaTable(path).to_pyarrow_table().num_rows == 1


@pytest.mark.parametrize("table, writing", [(ACCOUNTS, lock.batch), (PROGRESS, appending)])
def test_what_is_being_written_is_kept_when_the_clock_is_set_forward(
    home: Settings, table: Table, writing: Callable[[Settings], AbstractContextManager[None]]
) -> None:
    lakehouse = lakehouse_of(home)
    DeltaRsStore(lakehouse).ensure(table)
    path = Path(lakehouse.path(table))
    maintained(home)
    upkeep = threading.Thread(target=maintained, args=(home,))
    with writing(home):
        file = path / "written.parquet"
        pq.write_table(table.arrow_schema.empty_table(), file)
        hour_ago = time.time() - 3600
        os.utime(file, (hour_ago, hour_ago))
        upkeep.start()
        upkeep.join(1)
        assert file.exists()
        add = AddAction(file.name, file.stat().st_size, {}, 0, True, "{}")
        target = DeltaTable(path)
        target.create_write_transaction([add], "append", target.schema())
    upkeep.join()
    assert file.exists()


def test_small_files_are_compacted_without_large_ones(home: Settings) -> None:
    store = DeltaRsStore(lakehouse_of(home))
    store.ensure(rejected.TABLE)

    def append(values: list[bytes]) -> None:
        rows = [{"offset": number, "value": value} for number, value in enumerate(values)]
        store.append_arrow(rejected.TABLE, pa.Table.from_pylist(rows, rejected.TABLE.arrow_schema))

    append([os.urandom(1 << 20)])
    [large] = store.newest(rejected.TABLE).file_uris()
    for _ in range(8):
        append([b"small"])
    done = maintained(home)["silver.rejected"]
    assert (done.files_before, done.files_after) == (9, 2)
    assert large in store.newest(rejected.TABLE).file_uris()
    for _ in range(7):
        append([os.urandom(1 << 20)])
    # Files of 4 MiB at most, because eight are smaller than 2.
    assert maintained(home)["silver.rejected"].files_after == 3
    assert large not in store.newest(rejected.TABLE).file_uris()
    assert store.read(rejected.TABLE).num_rows == 16


def test_the_log_is_truncated_at_a_checkpoint(home: Settings) -> None:
    lakehouse = lakehouse_of(home)
    store = DeltaRsStore(lakehouse)
    store.ensure(PROGRESS)
    rows = PROGRESS.arrow_schema.empty_table()
    held = DeltaTable(lakehouse.path(PROGRESS))
    for _ in range(230):
        store.append_arrow(PROGRESS, rows)
    time.sleep(1.1)
    assert maintained(home)["quality.progress"].log_files_deleted >= 200
    assert log_entries(home, "quality.progress") <= 40
    assert DeltaTable(lakehouse.path(PROGRESS)).version() == store.version(PROGRESS) >= 230
    held.update_incremental()  # a reader that held on to an old version goes on
    assert held.version() == store.version(PROGRESS)


def test_rows_past_their_retention_go(home: Settings) -> None:
    store = DeltaRsStore(lakehouse_of(home))
    store.ensure(PROGRESS)
    now = datetime.now(UTC)
    rows = [
        {"flow": "requests", "batch_id": age, "recorded_at": now - timedelta(days=age)}
        for age in (1, 5, 8, 30)
    ]
    store.append_arrow(PROGRESS, pa.Table.from_pylist(rows, PROGRESS.arrow_schema))
    assert maintained(home)["quality.progress"].rows_expired == 2
    assert sorted(store.read(PROGRESS)["batch_id"].to_pylist()) == [1, 5]
    assert maintained(home, retention_days="")["quality.progress"].rows_expired == 0
    assert maintained(home, retention_days="quality.progress=2")["quality.progress"].rows_expired == 1


def test_rows_without_a_time_go_by_when_they_were_written(home: Settings) -> None:
    store = DeltaRsStore(lakehouse_of(home))
    store.ensure(rejected.TABLE)
    now = datetime.now(UTC)
    times = ((1, now - timedelta(days=40), now), (2, None, now), (3, None, now - timedelta(days=40)))
    rows = [{"offset": n, "kafka_timestamp": sent, "rejected_at": written} for n, sent, written in times]
    store.append_arrow(rejected.TABLE, pa.Table.from_pylist(rows, rejected.TABLE.arrow_schema))
    assert maintained(home, retention_days="silver.rejected=30")["silver.rejected"].rows_expired == 2
    assert store.read(rejected.TABLE)["offset"].to_pylist() == [2]


@pytest.mark.parametrize(
    "text", ["gold.nothing=3", "quality.progress", "quality.progress=0", "quality.sites=3"]
)
def test_a_retention_that_makes_no_sense_is_a_clear_error(text: str) -> None:
    with pytest.raises(SettingError, match="retention_days"):
        retention_days(text, TABLES)


def test_a_failure_is_logged_and_upkeep_goes_on(home: Settings, caplog: pytest.LogCaptureFixture) -> None:
    lakehouse = lakehouse_of(home)
    store = DeltaRsStore(lakehouse)
    store.ensure(PROGRESS)
    first = Path(lakehouse.path(PROGRESS)) / "_delta_log" / f"{0:020}.json"
    whole = first.read_text()
    first.write_text("damaged")
    eager = home.changed(maintain_interval_seconds=0.05, version_retention_seconds=1)
    stop = threading.Event()
    troubles: list[str] = []
    side = threading.Thread(target=keep(Home.of(eager, [PROGRESS]), troubles.append), args=(stop,))
    with caplog.at_level(logging.ERROR, "tidemark.operate.upkeep"):
        side.start()
        assert wait_until(lambda: "upkeep failed" in caplog.text, 60)
        first.write_text(whole)
        assert wait_until(lambda: DeltaTable(lakehouse.path(PROGRESS)).version() > 0, 60)
        assert wait_until(lambda: troubles[-1] == "", 60)
    stop.set()
    side.join(60)
    assert not in_background("upkeep")
    configured = DeltaTable(lakehouse.path(PROGRESS)).metadata().configuration
    assert configured["delta.deletedFileRetentionDuration"] == "interval 1 seconds"
    assert "quality.progress" in troubles[0]
