"""After `forget`, no file of the home has the address: neither tables nor their logs, nor Kafka's segments."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs
from pyspark.sql import SparkSession

from tests.conftest import QUICK_JVM
from tests.pipeline.harness import run_here
from tidemark.cli import tidemark
from tidemark.errors import TableError
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker as embedded
from tidemark.operate.prove import contents, files_with, holding_text
from tidemark.service.rebuild import rebuild_table
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse

LINE = '{client} - - [{day:%d/%b/%Y}:10:00:0{n} +0000] "GET /{n} HTTP/1.1" 200 5 "-" "Mozilla/5.0"\n'
MINE, OTHER, OLD = "198.51.100.77", "203.0.113.7", "192.0.2.77"
TODAY = datetime.now(UTC)


def command(settings: Settings, *words: str) -> tuple[int, str]:
    called = CliRunner().invoke(tidemark, words, env=settings.environment(), catch_exceptions=False)
    return called.exit_code, called.output


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home whose broker has stopped again, with all lines in the tables."""
    settings = Settings.of(
        home=tmp_path_factory.mktemp("erasure") / "home", broker_port=0, broker_java_options=QUICK_JVM,
        quality_interval_seconds=0.0,
    )  # fmt: skip
    process(settings, spark, "new.log", (MINE, TODAY), (OTHER, TODAY))
    return settings


@pytest.fixture
def home_of_its_own(original: Settings, tmp_path: Path) -> Settings:
    """A copy of that home, with its broker's data."""
    shutil.copytree(original.home, tmp_path / "home")
    return original.changed(home=tmp_path / "home")


def process(settings: Settings, spark: SparkSession, name: str, *clients: tuple[str, datetime]) -> None:
    """Imports nine lines of each client, on a day, and runs the pipeline once."""
    log = settings.home.parent / name
    lines = (LINE.format(client=client, day=day, n=n) for n in range(9) for client, day in clients)
    log.write_text("".join(lines))
    with embedded.running(settings) as there:
        import_files([str(log)], Options(there.kafka, say=lambda text: None))
        run_here(spark, there)


def test_forget_proves_that_no_file_has_the_address(home_of_its_own: Settings) -> None:
    settings = home_of_its_own
    before = files_with(settings.home, holding_text([MINE]))
    assert {path.split("/")[0] for path in before} == {"broker", "tables"}
    # A savepoint of before still has it, and is named.
    assert command(settings, "savepoint", "create", "before")[0] == 0
    code, output = command(settings, "forget", "--address", MINE, "--prove", "--json")
    report = json.loads(output)
    assert (code, report["kept_in_topic"], report["kept_in_savepoints"]) == (1, "", ["before"])
    assert {path.split("/")[0] for path in report["found_in"]} == {"savepoints"}
    assert report["rows"]["silver.requests"] == 9 and report["records"] >= 18

    assert command(settings, "savepoint", "delete", "before")[0] == 0
    code, output = command(settings, "forget", "--address", MINE, "--prove", "--json")
    assert (code, json.loads(output)["found_in"]) == (0, [])
    assert {path.split("/")[0] for path in files_with(settings.home, holding_text([OTHER]))} == {"tables"}
    # Nothing is left that a rebuild could make it of.
    rebuild_table(settings, "all", None, dry_run=False, report=lambda tables, done, total: None)
    assert command(settings, "maintain", "--prove", MINE)[0] == 0
    assert command(settings, "maintain", "--prove", OTHER)[0] == 1


def test_lines_past_their_retention_leave_a_file_that_the_broker_has_for_newer_ones(
    home_of_its_own: Settings, spark: SparkSession
) -> None:
    settings = home_of_its_own
    process(settings, spark, "old.log", (OLD, TODAY - timedelta(days=100)), (OTHER, TODAY))
    (settings.home / "tidemark.toml").write_text('[retention]\nlines = "30d"\nrequests = "30d"\n')
    assert command(settings, "maintain")[0] == 0
    before = files_with(settings.home, holding_text([OLD]))
    assert {path.split("/")[0] for path in before} == {"broker", "tables"}
    assert command(settings, "maintain", "--prove")[0] == 0
    assert files_with(settings.home, holding_text([OLD])) == []
    (settings.home / "tidemark.toml").unlink()


@pytest.mark.parametrize("name", ("logs/pipeline.log", "spark/part.gz", "tables/gold/x/_delta_log/0.json"))
def test_prove_finds_a_planted_value(name: str, tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "home" / name
    path.parent.mkdir(parents=True)
    data = f"a line of {MINE}: it could not be read".encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    settings = Settings.of(home=tmp_path / "home")
    assert files_with(settings.home, holding_text([MINE])) == [name]
    assert files_with(settings.home, holding_text([OTHER])) == []


def test_prove_reads_files_that_a_deletion_has_rewritten(tmp_path: Path) -> None:
    """Their values are neither in the statistics nor readable without decompression."""
    texts = [f"{number % 200}.{number}.0.{MINE}.{number * 7919 % 1000}" for number in range(5_000)]
    write_deltalake(str(tmp_path / "table"), pa.table({"text": texts, "n": range(5_000)}))
    DeltaTable(str(tmp_path / "table")).delete("n >= 4000")
    [rewritten] = DeltaTable(str(tmp_path / "table")).file_uris()
    assert pq.read_schema(rewritten).field("text").type == pa.string_view()
    assert any(MINE.encode() in part for part in contents(fs.LocalFileSystem(), rewritten))


def test_prove_reads_tables_elsewhere(tmp_path: Path) -> None:
    elsewhere = Lakehouse(str(tmp_path / "home/checkpoints"), str(tmp_path / "elsewhere"))
    write_deltalake(elsewhere.path("silver.requests"), pa.table({"text": [MINE]}))
    result = files_with(tmp_path / "home", holding_text([MINE]), elsewhere)
    assert {path.rpartition("/")[0] for path in result} >= {elsewhere.path("silver.requests")}
    catalog = Lakehouse(str(tmp_path / "volume"), catalog_schema="`main`.`tidemark`")
    with pytest.raises(TableError, match="works on tables in directories and on S3"):
        files_with(tmp_path / "home", holding_text([MINE]), catalog)


@pytest.mark.parametrize("codec", ("none", "gzip", "snappy", "lz4", "zstd"))
def test_records_of_every_compression_are_read(codec: str, broker: Settings, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    from tidemark.kafka import client as kafka

    topic = f"codec-{codec}"
    kafka.ensure_topic(broker.kafka, topic, partitions=1)
    producer = Producer({**kafka.client_config(broker.kafka), "compression.type": codec, "linger.ms": 50})
    for number in range(200):
        producer.produce(topic, f"{MINE} and more of the same text, number {number}")
    assert producer.flush(30) == 0
    [segment] = broker.home.glob(f"broker/data/{topic}-0/*.log")
    result = b"".join(contents(fs.LocalFileSystem(), str(segment)))
    assert all(f"number {number}".encode() in result for number in range(200))
