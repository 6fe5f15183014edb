"""No declared table is missed by anything that handles tables alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from silver import sessions
from tests.pipeline.compare import RECOUNTED
from tests.pipeline.harness import fresh, produce, run_here
from tidemark.cli.docs import tables_page
from tidemark.contract.graph import Graph
from tidemark.contract.table import Table
from tidemark.figures.declared import Goal
from tidemark.home import Home
from tidemark.operate import savepoints
from tidemark.operate.quality.check import Checker
from tidemark.operate.quality.runner import run
from tidemark.pipeline import LAYER_TABLES, TABLES, Pipeline
from tidemark.settings import Settings
from tidemark.stream.following import followers_of

LAYERS = {table.name for table in LAYER_TABLES}
# Written by the pipeline about itself, or by people: what they hold is checked where it is written.
RECORDS = {
    "quality.progress", "quality.results", "quality.reported", "quality.alerts", "quality.alert_rules", "quality.notes",
    "quality.access", "quality.deliveries",
}  # fmt: skip
# Every table has a row of one of them.
LINES = [
    b'192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] "GET /a?q=b HTTP/1.1" 200 5 "-" "Mozilla/5.0 Firefox/120.0" 0.005',
    b'192.0.2.1 - - [22/Nov/2026:10:00:01 +0000] "GET /b HTTP/1.1" 404 5 "-" "Mozilla/5.0 Firefox/120.0"',
    b'192.0.2.2 - - [22/Nov/2026:10:00:02 +0000] "GET /a HTTP/1.1" 200 5 "-" "Googlebot/2.1"',
    b"no log line",
]


@pytest.fixture(scope="module")
def used(broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home with accepted lines and a rejected one, and a goal."""
    settings = fresh(broker, tmp_path_factory.mktemp("every-table"))
    meaning = replace(settings.meaning, goals={"seen": Goal(path="/a*")})
    settings = replace(settings, meaning=meaning)
    produce(settings, [("shop", line) for line in LINES])
    run_here(spark, settings)
    return settings


def test_the_flows_write_every_table(used: Settings) -> None:
    flows = Pipeline.of(used).flows
    written = [table.name for flow in flows for table, _ in (*flow.work.appends, *flow.upserts)]
    written += [follower.table.name for flow in flows for follower in flow.followers]
    assert sorted(written) == sorted(LAYERS)


def test_quality_checks_every_table(used: Settings) -> None:
    home = Home.of(used, TABLES)
    results = run(home, Checker(home).all)
    assert {row["table"] for row in results} == {table.name for table in TABLES} - RECORDS
    assert [row for row in results if not row["success"] and row["severity"] == "critical"] == []


def test_a_savepoint_holds_every_table(used: Settings) -> None:
    savepoint = savepoints.create(used, "all")
    assert set(savepoint.versions) == {table.name for table in TABLES}


def test_a_snapshot_covers_every_table(used: Settings) -> None:
    named = [table.name for table in Pipeline.of(used).graph.of_flows]
    assert sorted(named) == sorted(LAYERS | {"quality.accounts", "quality.sites"})


def test_a_rebuild_makes_every_table(used: Settings, spark: SparkSession) -> None:
    pipeline = Pipeline.of(used).on(spark)
    work = pipeline.rebuild()
    names = [table.name for each in (work.of_lines, *work.of_accepted) for table in each.tables]
    names += [follower.table.name for follower in followers_of(pipeline)]
    assert sorted(names) == sorted(LAYERS - {"bronze.access_log"}) == sorted(pipeline.graph.rebuildable)


def test_every_table_that_identifies_visitors_is_forgotten() -> None:
    one_more = replace(sessions.TABLE, name="gold.of_a_package")
    tables = (*TABLES, one_more)
    graph = Graph(tables)
    forgets = {table.name for table in (*graph.appends, *graph.visited)}
    personal = {"visitor_id", "client_ip", "value", "user_agent"}
    texts = {
        table.name: {c.name for c in table.columns if c.type in ("string", "binary")} for table in tables
    }
    identifying = {name for name, columns in texts.items() if personal & columns}
    assert identifying == forgets


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_reference_describes_every_table(table: Table) -> None:
    page = tables_page(TABLES)
    (part,) = [part for part in page.split("\n## ") if part.startswith(f"{table.name}\n")]
    named = [*table.column_names, *(each.name for each in (*table.rejecting, *table.expectations))]
    assert [name for name in named if f"| `{name}` |" not in part] == []
    assert table.about in part


def test_every_table_is_recounted_independently() -> None:
    assert set(RECOUNTED) == LAYERS
