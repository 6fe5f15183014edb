"""A disk that is full under the tables, the checkpoints or the broker: one error, and then nothing is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import processes
from tests.pipeline.harness import assert_equal, fresh, produce
from tests.pipeline.recount import recount
from tests.recovery.ground import fill, make_room, small_disk
from tests.recovery.killing import traffic
from tidemark.contract.quality_tables import PROGRESS
from tidemark.errors import KafkaError, PlatformError
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.local import broker as embedded
from tidemark.local.directories import prepare_home
from tidemark.local.process import wait_until
from tidemark.local.records import read_record
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream.progress import Progress


@pytest.mark.parametrize(
    "part, leave, small_batch",
    [
        pytest.param("tables", 0, 50_000, id="tables"),
        pytest.param("tables", 300_000, 0, id="tables-written-by-spark", marks=pytest.mark.soak),
        pytest.param("checkpoints", 0, 50_000, id="checkpoints"),
    ],
)
def test_disk_full_under_the_pipeline(
    broker: Settings,
    spark: SparkSession,
    tmp_path: Path,
    part: str,
    leave: int,
    small_batch: int,
) -> None:
    settings = fresh(broker, tmp_path, batch_lines=1_000, local_rows=small_batch)
    pairs = traffic(seed=31, lines=4_000)
    with small_disk(settings.home / part, megabytes=16) as disk:
        produce(settings, pairs[:1_000])
        run_pipeline(settings, once=True)
        fill(disk, leave)
        produce(settings, pairs[1_000:])
        with pytest.raises(PlatformError, match=r"disk is full.*start again"):
            run_pipeline(settings, once=True)
        make_room(disk)
        run_pipeline(settings, once=True)
        assert_equal(settings, recount(pairs))


@pytest.mark.parametrize("command", ["broker start", "run --once", "view {log} --json"])
def test_a_first_start_on_a_full_disk_is_one_error_and_a_later_one_goes_on(
    tmp_path: Path, command: str
) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(line + b"\n" for _, line in traffic(seed=33, lines=200)))
    with small_disk(tmp_path / "disk", megabytes=200) as disk:
        environment = {
            **os.environ,
            "TIDEMARK_HOME": str(disk / "home"), "TIDEMARK_BROKER_PORT": "0",
            "TIDEMARK_DASHBOARD_PORT": "0", "XDG_CACHE_HOME": str(disk / "cache"),
        }  # fmt: skip
        call = [sys.executable, "-m", "tidemark", *command.format(log=log).split()]

        def started() -> subprocess.CompletedProcess[str]:
            return processes.run(
                call, env=environment, capture_output=True, text=True, timeout=120, check=False
            )

        fill(disk)
        done = started()
        assert done.returncode == 1 and not done.stdout
        assert not list(disk.rglob(".*")), "unfinished files"
        errors = [line for line in done.stderr.splitlines() if re.search("disk is full|has 0 MB free", line)]
        assert len(errors) == 1 and done.stderr.count("\n") <= 2, done.stderr
        make_room(disk)
        if command.startswith("view"):
            done = started()
            assert done.returncode == 0 and json.loads(done.stdout)["lines"] == 200, done.stderr


def test_progress_that_cannot_be_written_hides_no_error_of_a_flow(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=4) as disk:
        settings = Settings.of(home=disk / "home")
        prepare_home(settings)
        store = DeltaRsStore(lakehouse.of(settings))
        store.ensure(PROGRESS)
        progress = Progress(settings, store, {"requests": lambda: 0})
        progress.start()
        fill(disk)
        progress.batch_done("requests", 0, datetime.now(UTC), {"rows": 1})
        progress.stop()
        assert list(read_record(settings.run_directory / "pipeline.json")["flows"]) == ["requests"]
        assert not list(settings.run_directory.glob(".pipeline.json.*")), "unfinished files"


def test_disk_full_under_the_broker(home: Settings, spark: SparkSession, tmp_path: Path) -> None:
    pairs = traffic(seed=32, lines=20_000, rate=100)
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(line + b"\n" for _, line in pairs))
    with small_disk(home.home / "broker", megabytes=100) as disk:
        started = embedded.start(home)
        try:
            settings = home.changed(bootstrap_servers=started.bootstrap_servers)
            kafka.ensure_topic(settings.kafka, settings.kafka.topic)
            fill(disk, leave=1 << 19)
            # Which call of Kafka meets the dead broker is a matter of time. A slow broker may be given up before
            # its disk is full: then the same command again, as the error says.
            for _ in range(8):
                with pytest.raises(
                    KafkaError, match=r"stopped answering.*same command again|cannot be reached"
                ):
                    import_files([str(log)], Options(settings.kafka, say=lambda text: None, patience=8))
                ended = wait_until(lambda: embedded.status(home) is None, 15)
                if ended:
                    break
            assert ended, "a broker without a disk must end, not go on"
            with pytest.raises(PlatformError, match=r"No space left on device|broker\.log"):
                embedded.start(home)
            make_room(disk)
            again = embedded.start(home)
            settings = home.changed(bootstrap_servers=again.bootstrap_servers)
            import_files([str(log)], Options(settings.kafka, say=lambda text: None))
            assert kafka.await_committed(settings.kafka, settings.kafka.topic, timeout=60)
            run_pipeline(settings.changed(quality_interval_seconds=0), once=True)
            assert_equal(settings, recount(("default", line) for _, line in pairs))
        finally:
            embedded.stop(home)
