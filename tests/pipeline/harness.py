"""Runs the real pipeline on a separate topic and reads its tables without Spark."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.conftest import QUICK_JVM
from tests.pipeline.recount import Delivery, Expected
from tidemark import pipeline
from tidemark.contract.registry import tables
from tidemark.kafka import client as kafka
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import lock
from tidemark.stream.run import run

SHARED_LOG = Path(__file__).resolve().parents[3] / "shared" / "data" / "apache_logs.log.gz"


def fresh(broker: Settings, directory: Path, **changes: object) -> Settings:
    """A new home with a new, empty topic on the shared broker."""
    settings = broker.changed(
        home=directory / "home",
        topic=f"log-{uuid.uuid4().hex[:8]}",
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


def run_here(spark: SparkSession, settings: Settings) -> None:
    """`tidemark run --once` within this process, which spares the start of a JVM."""
    house = lakehouse.of(settings)
    store = DeltaRsStore(house)
    with lock.only_one(settings):
        run(spark, settings, house, store, pipeline.TABLES, pipeline.flows(settings, house, store), once=True)


def run_process(settings: Settings, *, crash_at: str = "", once: bool = True) -> subprocess.Popen[str]:
    """The real command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tidemark", "run", *(["--once"] if once else [])],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": crash_at},
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


def _lines(settings: Settings, table: str, number: int) -> None:
    found = rows(settings, table, ["topic", "partition", "offset"])
    assert len(set(found)) == len(found) == number, table


def _same(settings: Settings, table: str, columns: list[str], expected: set[tuple[object, ...]]) -> None:
    found = rows(settings, table, columns)
    assert len(found) == len(set(found)), f"{table} repeats rows"
    assert set(found) == expected, f"{table} differs: {len(set(found) ^ expected)} rows"


def _sessions(settings: Settings, expected: Expected) -> None:
    found = Counter(
        rows(
            settings,
            "silver.sessions",
            ["site", "country", "start_time", "end_time", "duration_seconds", "pageviews", "entry_page",
             "exit_page", "bounced", "closed"],
        )
    )  # fmt: skip
    assert {(*row, count) for row, count in found.items()} == expected.sessions


def _visitor_days(settings: Settings, expected: Expected) -> None:
    columns = ["site", "day", "requests", "pageviews", "assets", "not_found", "robots_txt", "minutes"]
    found = Counter(
        (*row, " ".join(f"{minute}:{views}" for minute, views in minutes))  # type: ignore[attr-defined]
        for *row, minutes in rows(settings, "silver.visitor_days", columns)
    )
    assert {(*row, count) for row, count in found.items()} == expected.visitor_days


def _same_sums(
    settings: Settings, table: str, key: list[str], sums: list[str], expected: set[tuple[object, ...]]
) -> None:
    """Compares sums over the rows with an equal part of the key."""
    found: dict[tuple[object, ...], list[int]] = {}
    for row in rows(settings, table, [*key, *sums]):
        totals = found.setdefault(row[: len(key)], [0] * len(sums))
        for place, value in enumerate(row[len(key) :]):
            totals[place] += value  # type: ignore[operator]
    assert {(*group, *totals) for group, totals in found.items()} == expected, table


_COUNTS = ["visitors", "pageviews", "requests", "bot_requests"]
_CLASSES = [f"status_{c}xx" for c in (2, 3, 4, 5)]

# How each table is compared with the recomputation.
RECOUNTED: dict[str, Callable[[Settings, Expected], None]] = {
    "bronze.access_log": lambda s, e: _lines(s, "bronze.access_log", e.accepted + e.rejected),
    "silver.requests": lambda s, e: _lines(s, "silver.requests", e.accepted),
    "silver.rejected": lambda s, e: _lines(s, "silver.rejected", e.rejected),
    "silver.sessions": _sessions,
    "gold.visitors_by_country": lambda s, e: _same(
        s, "gold.visitors_by_country", ["site", "window_start", "country", *_COUNTS], e.windows
    ),
    "gold.traffic": lambda s, e: _same(
        s, "gold.traffic", ["site", "window_start", *_COUNTS, "bytes", *_CLASSES], e.traffic
    ),
    "gold.pages": lambda s, e: _same(
        s, "gold.pages", ["site", "window_start", "path", "pageviews", "visitors"], e.pages
    ),
    "gold.formats": lambda s, e: _same(
        s,
        "gold.formats",
        ["site", "window_start", "format", "requests", "visitors", "first_event_time", "newest_event_time"],
        e.formats,
    ),
    "gold.responses": lambda s, e: _same(
        s,
        "gold.responses",
        ["site", "window_start", "status", "method", "protocol", "host", "bot", "requests", "bytes"],
        e.responses,
    ),
    "gold.errors": lambda s, e: _same(
        s,
        "gold.errors",
        ["site", "window_start", "path", "status", "requests", "visitors", "newest_event_time"],
        e.errors,
    ),
    "gold.visitor_hours": lambda s, e: _same(
        s, "gold.visitor_hours", ["site", "window_start", "visitors"], e.visitor_hours
    ),
    "gold.page_latency": lambda s, e: _same(
        s, "gold.page_latency", ["site", "window_start", "path", "requests"], e.page_latency
    ),
    "gold.latency": lambda s, e: _same(
        s, "gold.latency", ["site", "window_start", "bot", "latency_bucket", "requests"], e.latency
    ),
    "gold.searches": lambda s, e: _same(
        s, "gold.searches", ["site", "day", "term", "searches", "visitors"], e.searches
    ),
    "silver.visitor_days": _visitor_days,
    "gold.bots": lambda s, e: _same_sums(
        s,
        "gold.bots",
        ["site", "window_start"],
        ["requests", "pages", "bytes", "robots_txt", "errors"],
        e.bots,
    ),
    "gold.bot_pages": lambda s, e: _same_sums(
        s, "gold.bot_pages", ["site", "day", "path"], ["requests"], e.bot_pages
    ),
    # A visitor has one country, device, browser and system.
    "gold.audience": lambda s, e: _same_sums(
        s,
        "gold.audience",
        ["site", "window_start", "country"],
        ["requests", "pageviews", "bytes", "visitors"],
        e.audience,
    ),
}


def assert_equal(
    settings: Settings, expected: Expected, duplicate: int = 0, without: Collection[object] = ()
) -> None:
    """Compares every gold and silver table, and the accounts, with the recomputation; `without` tables that lack their
    history."""
    for table in tables():
        if table.name in without:
            continue
        RECOUNTED[table.name](settings, expected)
    accounts = rows(
        settings, "quality.accounts", ["flow", "batch_id", "received", "accepted", "rejected", "duplicate"]
    )
    assert len({row[:2] for row in accounts}) == len(accounts)
    assert all(received == a + r + d for *_, received, a, r, d in accounts)
    assert sum(row[3] for row in accounts) == expected.accepted
    assert sum(row[4] for row in accounts) == expected.rejected
    assert sum(row[5] for row in accounts) == duplicate
