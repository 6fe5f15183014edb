"""Tables in a catalog schema: the commands on a session that a runtime brings, as on Databricks.

The catalog is Spark's own, with Delta: names, SQL and commits are those of a Unity Catalog schema, permissions
are not there. Each command runs in a home of its own, since a job cluster's disk does not outlive the job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from silver import requests
from tests.pipeline.harness import assert_equal, deliver, fresh, produce, rows
from tests.pipeline.recount import Delivery, recount
from tests.recovery.killing import Pair, traffic
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule
from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.kafka import client as kafka
from tidemark.loops import stopping_when
from tidemark.operate import savepoints
from tidemark.operate.prove import files_with, holding_text
from tidemark.pipeline import TABLES
from tidemark.privacy.door import Door
from tidemark.service.forget import forget_visitor
from tidemark.service.quality import check_quality
from tidemark.service.rebuild import rebuild_table
from tidemark.service.run import run_pipeline
from tidemark.service.savepoints import make_savepoint
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import Settings
from tidemark.settings.privacy import Privacy, SitePrivacy
from tidemark.settings.retention import RetentionSettings
from tidemark.store import lease
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.store.lease import only_writer

ADDRESS, EMAIL = "198.51.100.77", "ana@example.org"
# What retention deletes, and the table that is recomputed from it.
EXPIRING = {"gold.audience", *(table.name for table in TABLES if table.layer in ("bronze", "silver"))}
BAD = [("default", b"no log line"), ("shop", b"")]
# A rule that turns away good lines: it was wrong, and is gone today.
WRONG = RejectingRule(
    "no_errors", column("status") < 400, "status", "A rule that was wrong.", unless=~column("well_formed")
)


@pytest.fixture
def catalog(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """Settings of tables in a schema of their own, whose files are in `tmp_path / "lake"`."""
    settings = fresh(broker, tmp_path)
    settings = settings.changed(
        catalog="spark_catalog",
        schema=settings.kafka.topic.replace("-", "_"),
        checkpoint_location=str(tmp_path / "volume" / "checkpoints"),
        visitor_key="kept in a secret",
    )
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.x")
    spark.sql(f"CREATE SCHEMA {settings.lakehouse.schema} LOCATION '{tmp_path / 'lake'}'")
    yield settings
    spark.sql(f"DROP SCHEMA {settings.lakehouse.schema} CASCADE")


def on_another_cluster(settings: Settings) -> Settings:
    """The same tables, for a process on a disk without anything."""
    home = settings.home.with_name(f"{settings.home.name}-next")
    return settings.changed(home=home)


def as_directories(settings: Settings, directory: Path) -> Settings:
    """The tables' files, laid out as a home has them, for readers of directories."""
    for table in TABLES:
        link = directory / "tables" / table.layer / table.name.split(".")[1]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(directory.parent / "lake" / table.name.replace(".", "_"), target_is_directory=True)
    return settings.changed(home=directory)


def visit(hours_ago: float, path: str) -> Pair:
    time = f"{datetime.now(UTC) - timedelta(hours=hours_ago):%d/%b/%Y:%H:%M:%S}"
    return "aged", f'{ADDRESS} - - [{time} +0000] "GET {path} HTTP/1.1" 200 5 "-" "Firefox/140.0"'.encode()


def masked(pairs: list[Pair]) -> list[Pair]:
    """The lines with what figures show of them in masked mode."""
    return [(site, line.replace(EMAIL.encode(), b"removed")) for site, line in pairs]


def quiet(what: str, done: int, total: int) -> None:
    pass


def run_under_a_wrong_rule(settings: Settings, pairs: list[Pair]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "REJECTING", (*requests.REJECTING, WRONG))
        produce(settings, pairs)
        run_pipeline(settings, once=True)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_command_works_on_catalog_tables_or_says_why_not(
    catalog: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    pairs: list[Pair] = [*traffic(seed=31, lines=600), *BAD]
    with pytest.raises(TableError, match=r"no tables yet in `spark_catalog`"):
        check_quality(catalog)

    run_under_a_wrong_rule(catalog, pairs[300:])
    files = as_directories(catalog, tmp_path / "view")
    assert len(rows(files, "silver.rejected", ["offset"])) > 3

    # A dry run foretells what a rebuild changes.
    cluster = on_another_cluster(catalog)
    spark.sql(f"DELETE FROM {lakehouse_of(cluster).sql_name('gold.traffic')} WHERE site = 'shop'")
    foretold = rebuild_table(cluster, "gold.traffic", None, dry_run=True, report=quiet)
    assert foretold and {d.table for d in foretold} == {"gold.traffic"}
    assert rebuild_table(cluster, "gold.traffic", None, dry_run=False, report=quiet) == foretold

    # Another gap of sessions and another visitor key are refused until all is rebuilt. That goes on from the
    # checkpoints with the lines that have arrived, and makes everything anew by the right rules.
    before = set(rows(files, "silver.requests", ["visitor_id"]))
    pairs += (
        more := [*traffic(seed=32, lines=200), visit(300, "/old"), visit(100, f"/to/{EMAIL}"), visit(1, "/")]
    )
    produce(cluster, [*pairs[:300], *more])
    unreadable = Delivery("aged", b"unreadable", None, 0, int(datetime.now(UTC).timestamp()) - 300 * 3600)
    deliver(cluster, [unreadable])
    pairs.append((unreadable.site, unreadable.line))
    shorter = on_another_cluster(cluster).changed(session_gap_seconds=10)
    with pytest.raises(TableError, match=r"silver\.session_goals no longer fits"):
        run_pipeline(shorter, once=True)
    other = shorter.changed(visitor_key="another secret")
    with pytest.raises(TableError, match="is not the one that the tables in `spark_catalog`"):
        run_pipeline(other, once=True)
    with pytest.raises(TableError, match="is not the one"):
        rebuild_table(other, "all", None, dry_run=False, report=quiet)
    found = rebuild_table(other, "all", None, dry_run=False, report=quiet, renew_key=True)
    assert {d.table for d in found} >= {"silver.requests", "silver.rejected", "gold.visitors_by_country"}
    assert not before & set(rows(files, "silver.requests", ["visitor_id"]))
    assert recount(pairs, 10) != recount(pairs)
    assert_equal(files, recount(pairs, 10))
    tables = spark.sql(f"SHOW TABLES IN spark_catalog.{catalog.lakehouse.schema}").collect()
    assert sorted(t.tableName for t in tables if not t.isTemporary) == sorted(
        t.name.replace(".", "_") for t in TABLES
    )

    # Retention deletes lines and requests, and their figures stay.
    other = replace(other, retention=RetentionSettings(lines="72h", requests="200h"))
    of_lines = ("bronze.access_log", "silver.rejected")
    for name in map(lakehouse_of(other).sql_name, of_lines):
        spark.sql(
            f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
        )
    accounts = lakehouse_of(other).sql_name("quality.accounts")
    older = ", ".join(f"{name} = {name} - INTERVAL 40 DAYS" for name in ("started_at", "committed_at"))
    spark.sql(f"UPDATE {accounts} SET {older}")
    batches = len(rows(files, "quality.accounts", ["flow"]))
    done = {entry.table: entry for entry in maintain_tables(on_another_cluster(other))}
    assert len(rows(files, "quality.accounts", ["flow"])) < batches
    assert done.keys() == {table.name for table in TABLES}
    assert done["quality.progress"].files_after < done["quality.progress"].files_before
    assert done["bronze.access_log"].rows_expired > done["silver.requests"].rows_expired > 0
    assert done["silver.rejected"].rows_expired == 1
    assert not any(entry.skipped for entry in done.values())
    visitors = rows(files, "silver.requests", ["visitor_id"])
    assert [row for row in rows(files, "bronze.access_log", ["site", "event_time"]) if row[1]] == [
        ("aged", pytest.approx(datetime.now(UTC).timestamp() - 3600, abs=3000))
    ]
    assert len(visitors) == 2
    for name in of_lines:
        directory = tmp_path / "lake" / name.replace(".", "_")
        assert files_with(directory, holding_text(["GET /old", EMAIL, "unreadable"])) == []
    assert_equal(files, recount(pairs, 10), without=EXPIRING)

    results, docs = check_quality(other)
    assert [r for r in results if not r["success"] and r["severity"] == "critical"] == []
    assert {r["table"] for r in results} >= {"silver.requests", "gold.traffic"} and docs.exists()

    for refused in (
        lambda: make_savepoint(other, "name"),
        lambda: savepoints.restore(other, "name"),
        lambda: forget_visitor(other, visitor="0" * 32, address=""),
        lambda: maintain_tables(other, at_once=True),
    ):
        with pytest.raises(TableError, match="works on tables in directories and on S3"):
            refused()
    with pytest.raises(TableError, match="as a whole"):
        rebuild_table(other, "all", datetime.now(UTC), dry_run=True, report=quiet)

    # A stricter mode reaches bronze, requests whose lines are gone, files of old versions, and Kafka.
    stricter = replace(on_another_cluster(other), privacy=Privacy(SitePrivacy("masked")))
    pairs += (more := [visit(0.5, f"/again/{EMAIL}")])
    produce(stricter, more)
    rebuild_table(stricter, "all", None, dry_run=False, report=quiet)
    assert sorted(rows(files, "silver.requests", ["client_ip", "path"])) == [
        ("198.51.100.0", path) for path in ("/", "/again/removed", "/to/removed")
    ]
    assert set(rows(files, "silver.requests", ["visitor_id"])) == set(visitors)
    assert files_with(tmp_path / "lake", holding_text([ADDRESS, EMAIL])) == []
    topic = stricter.kafka.topic
    assert kafka.beginning_offsets(stricter.kafka, topic) == kafka.end_offsets(stricter.kafka, topic)
    assert_equal(files, recount(masked(pairs), 10), without=EXPIRING)

    # The stream goes on behind it, and masks lines that it reads.
    pairs += (more := [visit(0.4, f"/last/{EMAIL}")])
    produce(stricter, more)
    run_pipeline(stricter, once=True)
    assert_equal(files, recount(masked(pairs), 10), without=EXPIRING)
    assert files_with(tmp_path / "lake", holding_text([ADDRESS, EMAIL])) == []


def test_anonymous_lines_are_refused_where_the_home_does_not_stay(tmp_path: Path) -> None:
    settings = Settings.of(
        home=tmp_path, catalog="main", checkpoint_location=str(tmp_path / "volume"), visitor_key="k"
    )
    for privacy in (SitePrivacy("anonymous"), SitePrivacy("masked", respect_gpc=True)):
        anonymous = replace(settings, privacy=Privacy(sites={"shop": privacy}))
        for refused in (lambda: run_pipeline(anonymous, once=True), lambda: Door.of(anonymous)):  # noqa: B023
            with pytest.raises(SettingError, match="need a home that keeps their salts"):
                refused()


@pytest.mark.parametrize(
    "lacking, message",
    [
        ({"checkpoint_location": ""}, "checkpoint_location"),
        ({"visitor_key": ""}, "visitor_key"),
    ],
)
def test_what_must_outlive_a_cluster_is_asked_for(
    lacking: dict[str, str], message: str, tmp_path: Path
) -> None:
    settings = Settings.of(
        home=tmp_path / "home", catalog="main", checkpoint_location=str(tmp_path / "volume"), visitor_key="k"
    )
    with pytest.raises(SettingError, match=message):
        run_pipeline(settings.changed(**lacking), once=True)


def test_names_in_a_catalog_are_quoted(tmp_path: Path) -> None:
    settings = Settings.of(
        home=tmp_path, catalog="my-cat", schema="tide", checkpoint_location="/Volumes/a/b/c/"
    )
    lakehouse = lakehouse_of(settings)
    assert lakehouse.sql_name("gold.pages") == "`my-cat`.`tide`.`gold_pages`"
    assert lakehouse.checkpoint("requests", 1) == "/Volumes/a/b/c/requests-v1"
    assert lakehouse.can.files is None and not lakehouse.can.keeps_home


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    lakehouse = Lakehouse(checkpoint_root=str(tmp_path / "volume"), catalog_schema="`a`.`b`")
    with (
        only_writer(lakehouse, "a pipeline"),
        pytest.raises(HomeBusyError, match=r"a pipeline on .* writes to the tables of `a`\.`b`"),
        only_writer(lakehouse, "a rebuild", patience=0),
    ):
        pass
    with only_writer(lakehouse, "a rebuild", patience=0):
        assert (tmp_path / "volume" / "writer.lease").exists()
    assert not (tmp_path / "volume" / "writer.lease").exists()


def test_who_waits_gets_the_lease_when_it_is_given_back(tmp_path: Path) -> None:
    lakehouse = Lakehouse(checkpoint_root=str(tmp_path), catalog_schema="`a`.`b`")
    end, got = threading.Event(), threading.Event()

    def first() -> None:
        with only_writer(lakehouse, "a pipeline"):
            got.set()
            end.wait(60)

    holder = threading.Thread(target=first)
    holder.start()
    got.wait(60)
    threading.Timer(0.2, end.set).start()
    with only_writer(lakehouse, "a rebuild", patience=10):
        assert not holder.is_alive()
    holder.join()


def test_a_lease_that_is_not_renewed_counts_no_more_whatever_the_clocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 1.0)
    lakehouse = Lakehouse(checkpoint_root=str(tmp_path), catalog_schema="`a`.`b`")
    held = tmp_path / "writer.lease"
    # Their holders' clocks are far behind and far ahead.
    for until in ("1.0", "99999999999.0"):
        held.write_text(f'{{"id": "x", "what": "a pipeline", "host": "gone", "until": "{until}"}}')
        with (
            pytest.raises(HomeBusyError, match="a pipeline on gone"),
            only_writer(lakehouse, "", patience=0.1),
        ):
            pass
        with only_writer(lakehouse, "a pipeline", patience=10):
            assert '"gone"' not in held.read_text()


def test_a_lease_that_is_just_being_written_is_held(tmp_path: Path) -> None:
    lakehouse = Lakehouse(checkpoint_root=str(tmp_path), catalog_schema="`a`.`b`")
    (tmp_path / "writer.lease").touch()
    with (
        pytest.raises(HomeBusyError, match="another writer"),
        only_writer(lakehouse, "a rebuild", patience=0),
    ):
        pass


def test_a_lease_that_is_renewed_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.05)
    lakehouse = Lakehouse(checkpoint_root=str(tmp_path), catalog_schema="`a`.`b`")
    with (
        only_writer(lakehouse, "a pipeline"),
        pytest.raises(HomeBusyError, match="a pipeline on"),
        only_writer(lakehouse, "a rebuild", patience=2),
    ):
        pass


def test_a_holder_whose_lease_was_taken_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.05)
    lakehouse = Lakehouse(checkpoint_root=str(tmp_path), catalog_schema="`a`.`b`")
    stopping = threading.Event()

    def hold() -> None:
        with only_writer(lakehouse, "a pipeline") as lost:
            watch = threading.Thread(target=stopping_when(lost.is_set, 0.1), args=(stopping,))
            watch.start()
            (tmp_path / "writer.lease").write_text('{"id": "x", "what": "a pipeline", "host": "other"}')
            assert stopping.wait(60)
            watch.join()

    with pytest.raises(HomeBusyError, match=r"has taken over the tables of `a`\.`b`"):
        hold()
    # It is the other's.
    assert '"other"' in (tmp_path / "writer.lease").read_text()
