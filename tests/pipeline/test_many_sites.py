"""What a batch costs follows the sites that it has lines of, not those of the home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce
from tests.pipeline.recount import recount
from tidemark.contract.store import Where
from tidemark.contract.table import Table
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import lock
from tidemark.stream.run import run

SITES = 40
Line = tuple[str, bytes]


class CountingStore(DeltaRsStore):
    """Keeps of each read the table, the number of alternatives in its condition, and of rows found."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        super().__init__(lakehouse)
        self.reads: list[tuple[str, int, int]] = []

    def read(self, table: Table, where: Where = (), columns: Sequence[str] | None = None) -> pa.Table:
        rows = super().read(table, where, columns)
        self.reads.append((table.name, len(where), rows.num_rows))
        return rows


def line(site: int, minute: int, path: str = "/") -> Line:
    time = f"21/Nov/2025:{10 + minute // 60}:{minute % 60:02}:00 +0000"
    return f"site-{site}", (
        f'203.0.113.{site} - - [{time}] "GET {path} HTTP/1.1" 200 5 "-" "Firefox/140.0"'.encode()
    )


def worked_off(spark: SparkSession, settings: Settings, lines: Sequence[Line]) -> CountingStore:
    produce(settings, lines)
    pipeline = Pipeline.of(settings).on(spark)
    store = CountingStore(pipeline.lakehouse)
    pipeline = replace(pipeline, opened=store)
    with lock.only_one(settings):
        run(pipeline, pipeline.flows, once=True)
    return store


def test_a_batch_reads_of_its_own_sites_alone(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = fresh(broker, tmp_path)
    every = [line(site, minute) for site in range(SITES) for minute in (0, 5)]
    worked_off(spark, settings, every)
    # No pageview, but the time of site 7 goes on, and its session is over. Those of the others stay open.
    later = [line(7, 90, "/style.css")]
    store = worked_off(spark, settings, later)

    assert [read for read in store.reads if read[0] == "quality.sites"] == [
        ("quality.sites", 0, SITES),  # once, at the start
        ("quality.sites", 1, 1),
    ]
    assert [read for read in store.reads if read[0] == "silver.sessions"] == [("silver.sessions", 1, 1)]
    assert_equal(settings, recount(every + later))

    # Many sites are one condition.
    again = [line(site, 100) for site in range(SITES)]
    store = worked_off(spark, settings, again)
    assert ("silver.sessions", 2, SITES - 1) in store.reads
    assert_equal(settings, recount(every + later + again))
