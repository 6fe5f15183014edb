"""No declared table is missed by anything that handles tables alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from silver import sessions
from tests.pipeline.compare import RECOUNTED
from tests.pipeline.harness import fresh, produce, run_here
from tidemark import pipeline
from tidemark.cli.docs import tables_page
from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.table import Table
from tidemark.operate import savepoints
from tidemark.operate.forget import Places
from tidemark.operate.quality.check import Checker
from tidemark.operate.quality.runner import run
from tidemark.settings import Settings
from tidemark.settings.questions import GoalSettings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

LAYERS = {table.name for table in pipeline.LAYER_TABLES}
# Written by the pipeline about itself, or by people: what they hold is checked where it is written.
RECORDS = {
    "quality.progress", "quality.results", "quality.reported", "quality.alerts", "quality.alert_rules", "quality.notes",
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
    meaning = replace(settings.meaning, goals={"seen": GoalSettings(path="/a*")})
    settings = replace(settings, meaning=meaning)
    produce(settings, [("shop", line) for line in LINES])
    run_here(spark, settings)
    return settings


def test_the_flows_write_every_table(used: Settings) -> None:
    house = lakehouse.of(used)
    flows = pipeline.flows(used, house, DeltaRsStore(house))
    written = [table.name for flow in flows for table, _ in (*flow.work.appends, *flow.upserts)]
    written += [follower.table.name for flow in flows for follower in flow.followers]
    assert sorted(written) == sorted(LAYERS)


def test_quality_checks_every_table(used: Settings) -> None:
    store = DeltaRsStore(lakehouse.of(used))
    results = run(used, store, pipeline.TABLES, Checker(used, store, pipeline.TABLES).all)
    assert {row["table"] for row in results} == {table.name for table in pipeline.TABLES} - RECORDS
    assert [row for row in results if not row["success"] and row["severity"] == "critical"] == []


def test_a_savepoint_holds_every_table(used: Settings) -> None:
    house = lakehouse.of(used)
    made = savepoints.create(used, house, "all")
    assert set(made.versions) == {table.name for table in pipeline.TABLES}


def test_a_consistent_cut_covers_every_table(used: Settings) -> None:
    named = [table.name for table in pipeline.chain(lakehouse.of(used)).tables]
    assert sorted(named) == sorted(LAYERS | {"quality.accounts", "quality.sites"})


def test_a_rebuild_makes_every_table(used: Settings, spark: SparkSession) -> None:
    work = pipeline.rebuilding(spark, used, lakehouse.of(used))
    made = [table.name for each in (work.judging, *work.derived) for table in each.tables]
    made += [follower.table.name for follower in work.followers]
    assert sorted(made) == sorted(LAYERS - {"bronze.access_log"}) == sorted(pipeline.rebuildable())


def test_every_table_that_identifies_visitors_is_forgotten() -> None:
    one_more = replace(sessions.TABLE, name="gold.of_a_package")
    tables = (*pipeline.TABLES, one_more)
    places = Places.of(tables, ACCOUNTS, SITES)
    forgets = {t.name for t in (places.lines, places.accepted, places.rejected, *places.visited)}
    personal = {"visitor_id", "client_ip", "value", "user_agent"}
    texts = {
        table.name: {c.name for c in table.columns if c.type in ("string", "binary")} for table in tables
    }
    identifying = {name for name, columns in texts.items() if personal & columns}
    assert identifying == forgets
    assert pipeline.places() == Places.of(pipeline.TABLES, ACCOUNTS, SITES)


@pytest.mark.parametrize("table", pipeline.TABLES, ids=lambda table: table.name)
def test_the_reference_describes_every_table(table: Table) -> None:
    page = tables_page(pipeline.TABLES)
    (part,) = [part for part in page.split("\n## ") if part.startswith(f"{table.name}\n")]
    named = [*table.column_names, *(each.name for each in (*table.rejecting, *table.expectations))]
    assert [name for name in named if f"| `{name}` |" not in part] == []
    assert table.about in part


def test_every_table_is_recounted_independently() -> None:
    assert set(RECOUNTED) == LAYERS
