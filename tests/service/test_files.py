"""Files read without Kafka and Spark give the tables of the pipeline, whatever kills the process meanwhile."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests import processes
from tests.pipeline.harness import fresh, rows, run_here
from tests.recovery.killing import traffic
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.contract.registry import tables
from tidemark.importing.file_import import ReadOptions, Report
from tidemark.importing.importer import Options, import_files
from tidemark.local.directories import prepare_home
from tidemark.local.view import kept
from tidemark.local.workers import worker_pool
from tidemark.pipeline import Pipeline
from tidemark.service.files import FileRun
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings, load

CASES = Path(__file__).parents[1] / "cases"
KEY = "k" * 32
# Where a line came from and when; everything else is made of the lines.
ASIDE = {"topic", "partition", "offset", "kafka_timestamp", "ingested_at", "rejected_at", "updated_at"}
COUNTS = ["received", "accepted", "rejected", "duplicate"]


def lines(seed: int, number: int) -> bytes:
    return b"".join(line + b"\n" for _, line in traffic(seed, number))


def inputs(directory: Path) -> list[str]:
    """Logs of all kinds: generated traffic, lines of public reports, and what shippers write."""
    long, packed, shipped = directory / "access.log", directory / "old.log.gz", directory / "shipped.log"
    long.write_bytes(lines(1, 3_000) + b"a last line without its line feed")
    packed.write_bytes(gzip.compress(lines(2, 500)))
    good = '203.0.113.7 - - [22/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "Mozilla/5.0"'
    keys: list[dict[str, Any]] = [
        {"tidemark_site": "shop"},
        {"tidemark_site": "shop", "tidemark_id": "1"},
        {"tidemark_site": "shop", "tidemark_id": "1"},
        {"tidemark_id": 1, "tidemark_format": "combined"},
        {"tidemark_id": 1},
        {"tidemark_format": "nothing"},
    ]
    shipped.write_text("\n".join(json.dumps({"message": good, **own}) for own in [*keys, *keys]) + "\n")
    return [str(path) for path in [long, packed, shipped, *sorted(CASES.glob("*/lines.*"))]]


def read_without_spark(settings: Settings, paths: list[str]) -> Report:
    prepare_home(settings)
    report = Report()
    with worker_pool(1) as pool:
        run = FileRun(Pipeline.of(settings), pool, 1, part_records=150)
        run.start(paths)
        assert run.read(paths, ReadOptions(complete=True, say=lambda text: None), report) == []
        run.close()
    return report


def content(settings: Settings, table: str) -> Counter[str]:
    found = DeltaTable(str(settings.tables / table.replace(".", "/"))).to_pyarrow_table()
    kept = found.drop_columns([name for name in found.column_names if name in ASIDE])
    return Counter(map(repr, kept.to_pylist()))


def test_the_tables_equal_those_of_the_pipeline(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    paths = inputs(tmp_path)
    settings = fresh(broker, tmp_path, visitor_key=KEY)
    imported = import_files(paths, Options(settings.kafka, complete=True, say=lambda text: None))
    run_here(spark, settings)
    viewed = Settings.of(home=tmp_path / "viewed", visitor_key=KEY)
    report = read_without_spark(viewed, paths)

    assert (report.added, report.comments) == (imported.added, imported.comments) and report.added > 3_500
    for table in tables():
        here, there = content(viewed, table.name), content(settings, table.name)
        assert here == there, (table.name, list((here - there).items())[:2], list((there - here).items())[:2])
    sums = [
        [sum(column) for column in zip(*rows(each, ACCOUNTS.name, COUNTS), strict=True)]  # type: ignore[arg-type]
        for each in (settings, viewed)
    ]
    assert sums[0] == sums[1] and sums[0][3] > 0
    assert len(rows(viewed, ACCOUNTS.name, COUNTS)) > 1, "several batches"
    assert read_without_spark(viewed, paths).added == 0


# With @2, the run finishes what the one before it has left, and is killed in a batch of its own.
POINTS = (
    "files:planned",
    "requests:between-tables@3",
    "requests:before-ledger@2",
    "ledger:between-tables",
    "activity:between-tables@5",
    "activity:before-followers@2",
    "files:before-done@2",
)


def view(path: Path, cache: Path, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    return processes.run(
        [sys.executable, "-m", "tidemark", "view", "--json", str(path)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "TIDEMARK_CRASH_AT": crash_at, "TIDEMARK_VISITOR_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip


def test_a_view_that_is_killed_at_any_point_goes_on_exactly(tmp_path: Path) -> None:
    path, whole = tmp_path / "access.log", b""
    for number, point in enumerate(POINTS):
        whole += lines(10 + number, 400)
        path.write_bytes(whole)
        assert view(path, tmp_path, point).returncode == -signal.SIGKILL, point
    done = view(path, tmp_path)
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        (home,) = kept()

    once = Settings.of(home=tmp_path / "once", visitor_key=KEY)
    read_without_spark(once, [str(path)])
    for table in tables():
        assert content(Settings.of(home=home.directory), table.name) == content(once, table.name), table.name
    numbers = rows(Settings.of(home=home.directory), ACCOUNTS.name, ["batch_id", "received"])
    assert len({number for number, _ in numbers}) == len(numbers)
    assert sum(received for _, received in numbers) == whole.count(b"\n")  # type: ignore[misc]


BLOCKED = ("pyspark", "py4j", "delta", "confluent_kafka", "great_expectations", "streamlit")


def test_a_view_needs_neither_spark_nor_kafka_and_names_a_proxy(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    of_proxy = b'10.0.0.7 - - [22/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "Mozilla/5.0"\n'
    path.write_bytes(lines(3, 300) + 700 * of_proxy)
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({BLOCKED})); from tidemark.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "view", "--no-dashboard", "--json", str(path)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lines"] == 1_000
    assert re.fullmatch(
        r"a proxy stands for the visitors, default: 7\d% from 10\.0\.0\.7: log .*\n", done.stderr
    )


def test_upkeep_compacts_what_no_flow_streams(tmp_path: Path) -> None:
    settings = load({"home": tmp_path / "home", "visitor_key": KEY})
    for number in range(8):
        log = tmp_path / f"{number}.log"
        log.write_bytes(lines(number, 20))
        read_without_spark(settings, [str(log)])
    before = sorted(rows(settings, "silver.requests", ["partition", "offset", "visitor_id"]))
    done = {entry.table: entry for entry in maintain_tables(settings)}["silver.requests"]
    assert (done.files_before, done.files_after, done.skipped) == (8, 1, "")
    assert sorted(rows(settings, "silver.requests", ["partition", "offset", "visitor_id"])) == before


def test_lines_of_files_expire_without_a_broker(tmp_path: Path) -> None:
    log, home = tmp_path / "access.log", tmp_path / "home"
    log.write_bytes(lines(1, 500))
    home.mkdir(mode=0o700)
    (home / "tidemark.toml").write_text('[retention]\nlines = "1d"\n', encoding="utf-8")
    settings = load({"home": home, "visitor_key": KEY})
    read_without_spark(settings, [str(log)])
    maintain_tables(settings)
    assert not rows(settings, "bronze.access_log", ["offset"])
    assert rows(settings, "silver.requests", ["offset"])
    assert not [*home.glob("broker*")]
