"""The loss of a machine: a home that is restored from the documented backup continues where the backup ends."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal
from tests.pipeline.recount import recount
from tests.recovery.killing import traffic
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker as embedded
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings


def test_a_restored_backup_loses_and_repeats_nothing(
    home: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """The copy is made as docs/operations.md says. The log has gained lines when it is imported again."""
    lines = [line + b"\n" for _, line in traffic(seed=33, lines=1_500)]
    log, backup = tmp_path / "access.log", tmp_path / "backup"
    log.write_bytes(b"".join(lines[:1_000]))
    _import_and_run(home, log)
    shutil.copytree(home.home, backup, ignore=shutil.ignore_patterns("run", "logs"))
    shutil.rmtree(home.home)

    restored = home.changed(home=tmp_path / "restored")
    shutil.copytree(backup, restored.home)
    log.write_bytes(b"".join(lines))
    _import_and_run(restored, log)
    assert_equal(restored, recount(("default", line.rstrip(b"\n")) for line in lines))


def _import_and_run(home: Settings, log: Path) -> None:
    with embedded.running(home) as settings:
        import_files([str(log)], Options(settings.kafka, say=lambda text: None))
        run_pipeline(settings.changed(quality_interval_seconds=0), once=True)
