"""Runs the real pipeline on a separate topic and reads its tables without Spark."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import uuid
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from tests import processes
from tests.conftest import QUICK_JVM
from tests.pipeline.compare import assert_table
from tests.pipeline.recount import Delivery, Expected
from tidemark.contract.registry import tables
from tidemark.kafka import client as kafka
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.stream import lock
from tidemark.stream.run import run

SHARED_LOG = Path(__file__).resolve().parents[3] / "shared" / "data" / "apache_logs.log.gz"


def fresh(broker: Settings, directory: Path, **changes: object) -> Settings:
    """A new home with a new, empty topic on the shared broker, and tables of its own below the `tables_location` of the
    broker's settings, if they have one."""
    topic, root = f"log-{uuid.uuid4().hex[:8]}", broker.lakehouse.tables_location
    settings = broker.changed(
        home=directory / "home",
        topic=topic,
        tables_location=f"{root}/{topic}" if root else "",
        driver_java_options=QUICK_JVM,
        quality_interval_seconds=0.0,
        maintain_interval_seconds=0.0,
        **changes,
    )
    kafka.ensure_topic(settings.kafka, settings.kafka.topic)
    return settings


def shared_lines() -> list[bytes]:
    return gzip.decompress(SHARED_LOG.read_bytes()).splitlines()


def produce(settings: Settings, lines: Iterable[tuple[str, bytes]]) -> None:
    """Sends (site, line) pairs, spread over the partitions as a sticky producer would."""
    producer = Producer(
        {
            **kafka.client_config(settings.kafka),
            "linger.ms": 5,
            "message.max.bytes": kafka.MAX_RECORD_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number, (site, line) in enumerate(lines):
        headers = [("site", site.encode())] if site != "default" else None
        producer.produce(
            settings.kafka.topic, line, headers=headers, partition=(number // 500) % settings.kafka.partitions
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def deliver(settings: Settings, deliveries: Iterable[Delivery]) -> None:
    """Sends lines as a shipper with ids would, each to a partition of its own choice."""
    producer = Producer({**kafka.client_config(settings.kafka), "linger.ms": 5})
    for each in deliveries:
        headers = [("site", each.site.encode())]
        if each.id is not None:
            headers.append(("id", each.id.encode()))
        producer.produce(
            settings.kafka.topic,
            each.line,
            headers=headers,
            partition=each.partition,
            timestamp=each.seconds * 1000,
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def run_here(spark: SparkSession, settings: Settings, which: slice = slice(None)) -> None:
    """`tidemark run --once` within this process, which spares the start of a JVM; `which` of the flows."""
    pipeline = Pipeline.of(settings).on(spark)
    with lock.only_one(settings):
        run(pipeline, pipeline.flows[which], once=True)


def run_process(
    settings: Settings, *, crash_at: str = "", once: bool = True, **environment: str
) -> subprocess.Popen[str]:
    """The real command in a process of its own, with more variables of the `environment`."""
    return processes.Popen(
        [sys.executable, "-m", "tidemark", "run", *(["--once"] if once else [])],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": crash_at, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def rows(settings: Settings, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """Rows of a table as tuples, times as epoch seconds. On S3, AWS's variables say how to reach it."""
    root = settings.lakehouse.tables_location.replace("s3a://", "s3://") or settings.tables
    data = DeltaTable(f"{root}/{table.replace('.', '/')}").to_pyarrow_table(columns=list(columns))
    plain = []
    for name in columns:
        column = data[name]
        if str(column.type).startswith("timestamp"):
            column = pc.divide(column.cast(pa.timestamp("us", "UTC")).cast("int64"), 1_000_000)
        plain.append(column.to_pylist())
    return list(zip(*plain, strict=True))


def received(settings: Settings) -> int:
    """The number of lines that the tables have received."""
    try:
        return sum(int(str(row[0])) for row in rows(settings, "quality.accounts", ["received"]))
    except TableNotFoundError:
        return 0


def assert_equal(
    settings: Settings, expected: Expected, duplicate: int = 0, without: Collection[object] = ()
) -> None:
    """Compares every gold and silver table, and the accounts, with the recomputation; `without` tables that lack their
    history."""
    for table in tables():
        if table.name not in without:
            assert_table(table.name, partial(rows, settings), expected)
    accounts = rows(
        settings, "quality.accounts", ["flow", "batch_id", "received", "accepted", "rejected", "duplicate"]
    )
    assert len({row[:2] for row in accounts}) == len(accounts)
    assert all(received == a + r + d for *_, received, a, r, d in accounts)
    assert sum(row[3] for row in accounts) == expected.accepted
    assert sum(row[4] for row in accounts) == expected.rejected
    assert sum(row[5] for row in accounts) == duplicate
