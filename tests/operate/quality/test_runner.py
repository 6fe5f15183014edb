"""Quality runs over real Delta tables: new rows, accounts, freshness, volume, the command."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import processes
from tests.operate.quality.rows import BAD, good, rows
from tidemark import cli
from tidemark.contract.quality_tables import RESULTS
from tidemark.home import Home
from tidemark.operate.old_accounts import DAYS
from tidemark.operate.quality.check import Checker
from tidemark.operate.quality.facts import take_moment
from tidemark.operate.quality.runner import run, run_if_new
from tidemark.operate.upkeep import maintain
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.store.catalog import SparkStore
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lakehouse import of as lakehouse_of

TABLE = {table.name: table for table in TABLES}
ACCOUNTED = ("bronze.access_log", "silver.requests", "silver.rejected", "quality.accounts")
Results = list[dict[str, Any]]


@dataclass
class Scene:
    """A home whose tables hold one batch: three lines, two accepted and one rejected."""

    settings: Settings
    lakehouse: Lakehouse
    store: DeltaRsStore

    def add(self, name: str, *values: dict[str, Any]) -> None:
        self.store.append_arrow(TABLE[name], rows(TABLE[name], *values))

    def batch(self, number: int, **requests: Any) -> None:
        at = 10 * number
        self.add("bronze.access_log", *(good(TABLE["bronze.access_log"], at + i) for i in range(3)))
        self.add("silver.requests", *(good(TABLE["silver.requests"], at + i, **requests) for i in range(2)))
        self.add("silver.rejected", good(TABLE["silver.rejected"], at + 2))
        self.add("quality.accounts", good(TABLE["quality.accounts"], number))

    def runner(self, names: tuple[str, ...] = ACCOUNTED, **settings: Any) -> Callable[[], Results]:
        """What runs the checks of new rows, as one process does again and again."""
        tables = [TABLE[name] for name in names]
        changed = self.settings.changed(**settings)
        home = Home.of(changed, tables)
        return partial(run, home, Checker(home).new)


@pytest.fixture
def scene(home: Settings) -> Scene:
    lakehouse = lakehouse_of(home)
    created = Scene(home, lakehouse, DeltaRsStore(lakehouse))
    for table in TABLES:
        created.store.ensure(table)
    created.batch(0)
    return created


def failed(results: Results) -> set[tuple[str, str]]:
    return {(r["table"], r["expectation"]) for r in results if not r["success"]}


def test_a_sound_batch_passes_and_leaves_complete_rows(scene: Scene) -> None:
    results = scene.runner()()

    assert failed(results) == set()
    for name in ("bronze.access_log", "silver.requests", "silver.rejected"):
        [counts] = [r for r in results if (r["table"], r["expectation"]) == (name, "rows_accounted_for")]
        assert counts["severity"] == "critical"
    stored = scene.store.read(RESULTS).to_pylist()
    assert sorted(stored, key=str) == sorted(results, key=str)
    assert len({r["run_id"] for r in stored}) == 1
    for name in set(RESULTS.column_names) - {"column"}:
        assert all(r[name] is not None and r[name] != "" for r in stored), name


@pytest.mark.parametrize(
    ("limits", "compared"),
    [
        ("silver.requests=30", {"bronze.access_log", "silver.rejected"}),
        ("silver.requests=30, quality.accounts=30", set()),
    ],
)
def test_rows_that_are_kept_for_a_time_only_are_not_missed(
    scene: Scene, limits: str, compared: set[str]
) -> None:
    results = scene.runner(retention_days=limits)()

    assert {r["table"] for r in results if r["expectation"] == "rows_accounted_for"} == compared


def test_only_new_rows_are_looked_at(scene: Scene) -> None:
    scene.add("silver.requests", good(TABLE["silver.requests"], 5, status=99))
    runner = scene.runner(("silver.requests",))
    assert ("silver.requests", "status_in_range") in failed(runner())

    scene.batch(1)
    results = runner()

    assert ("silver.requests", "status_in_range") not in failed(results)
    [checked] = [r for r in results if r["expectation"] == "status_in_range"]
    assert checked["observed_value"] == "0 of 2 rows"


def test_without_new_rows_a_single_run_starts_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere")
    if_new = partial(run_if_new, Home.of(scene.settings, TABLES))
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        if_new()
    scene.runner(tuple(TABLE))()
    known = scene.store.version(RESULTS)

    assert if_new() == []
    assert scene.store.version(RESULTS) == known

    scene.batch(1)
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        if_new()


def test_a_new_process_goes_on_where_the_last_run_stopped(scene: Scene) -> None:
    january = datetime(2026, 1, 1, tzinfo=UTC)
    scene.add("silver.requests", good(TABLE["silver.requests"], 5, ingested_at=january))
    scene.runner(("silver.requests",))()

    [checked] = [r for r in scene.runner(("silver.requests",))() if r["expectation"] == "status_in_range"]

    assert checked["observed_value"] == "0 of 2 rows"  # those of the last minutes, not January's


def test_accounts_that_do_not_balance_are_critical(scene: Scene) -> None:
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 1, received=4, accepted=0, rejected=3))

    results = scene.runner()()

    assert ("quality.accounts", "balanced") in failed(results)
    assert all(r["severity"] == "critical" for r in results if not r["success"])


def test_a_row_too_many_is_found_and_stays_found(scene: Scene) -> None:
    runner = scene.runner()
    assert failed(runner()) == set()
    for name in ACCOUNTED[:3]:
        scene.add(name, good(TABLE[name], 7))
    scene.batch(1)

    for _ in range(2):
        assert failed(runner()) >= {(name, "rows_accounted_for") for name in ACCOUNTED[:3]}


def test_old_accounts_are_compared_with_the_rows_before_and_after_they_are_summed(scene: Scene) -> None:
    old = datetime.now(UTC) - timedelta(days=DAYS + 1)
    for number in (1, 2):
        scene.batch(number)
    for number in (3, 4):
        counts = {"received": 1, "accepted": 0, "started_at": old, "committed_at": old}
        scene.add("quality.accounts", good(TABLE["quality.accounts"], number, **counts))
    runner = scene.runner()
    before = failed(runner())

    maintain(Home.of(scene.settings, [TABLE["quality.accounts"]]))

    assert scene.store.read(TABLE["quality.accounts"]).num_rows == 4
    assert failed(runner()) == before >= {("silver.rejected", "rows_accounted_for")}
    assert ("silver.requests", "rows_accounted_for") not in before


def test_rows_written_after_the_clock_was_set_back_are_looked_at(scene: Scene) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    for number, name in enumerate(ACCOUNTED[:3], start=5):
        clock = TABLE[name].clock
        scene.add(name, good(TABLE[name], number, **{clock: ahead}))
    counts = {"received": 1, "accepted": 1, "rejected": 0, "committed_at": ahead}
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 1, **counts))
    counts = {"received": 0, "accepted": 0, "rejected": 1, "committed_at": ahead}
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 2, **counts))
    runner = scene.runner()
    before = failed(runner())

    scene.batch(3, status=99)

    assert failed(runner()) - before == {("silver.requests", "status_in_range")}
    assert failed(scene.runner()()) - before == {("silver.requests", "status_in_range")}


def test_a_table_without_new_rows_is_not_fresh(scene: Scene) -> None:
    runner = scene.runner(freshness_limit_seconds=600)
    assert failed(runner()) == set()

    stale = scene.runner(freshness_limit_seconds=0.001)()

    # The quarantine may well stay empty.
    assert failed(stale) == {(name, "fresh") for name in ACCOUNTED if name != "silver.rejected"}
    assert {r["severity"] for r in stale if not r["success"]} == {"warning"}


@pytest.mark.parametrize("last_hour, usual", [(100, True), (10, False), (1000, False)])
def test_volume_is_compared_with_the_same_hour_of_other_days(
    scene: Scene, last_hour: int, usual: bool
) -> None:
    start = datetime.now(UTC) - timedelta(minutes=30)

    def add(day: int, requests: int, **time: int) -> None:
        at = start - timedelta(days=day, **time)
        row = good(TABLE["gold.traffic"], window_start=at, requests=requests)
        scene.add("gold.traffic", row)

    for day in (1, 2, 3):
        add(day, 100)
        add(day, 100_000, hours=2)
    add(0, last_hour)

    [volume] = [r for r in scene.runner(("gold.traffic",))() if r["expectation"] == "usual_volume"]

    assert volume["success"] == usual
    assert volume["severity"] == "warning"
    assert volume["observed_value"] == f"of usual {last_hour / 100:.2f}"


def test_too_few_days_say_nothing_about_volume(scene: Scene) -> None:
    scene.add("gold.traffic", good(TABLE["gold.traffic"], window_start=datetime.now(UTC)))

    assert "usual_volume" not in {r["expectation"] for r in scene.runner(("gold.traffic",))()}


@pytest.mark.cluster
def test_spark_counts_the_same(scene: Scene, spark: SparkSession) -> None:
    """Violations of every kind, in several files, the newest hour's volume, and accounts of a job."""
    tables = [TABLE[name] for name in (*ACCOUNTED, "silver.sessions", "gold.traffic")]
    for table in tables:
        name = table.name
        bad = [change for (of, _), changes in BAD.items() if of == name for change in changes]
        if bad:
            result = [good(table, 100 + number) | change for number, change in enumerate(bad)]
            scene.add(name, good(table, 0), *result[::2])
            scene.add(name, *result[1::2], good(table, 99, **{table.clock: None}))
    for day in range(4):
        hour = datetime.now(UTC) - timedelta(days=day, minutes=20)
        scene.add("gold.traffic", good(TABLE["gold.traffic"], window_start=hour, requests=10 + day))
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 1, flow="jobs.one"))
    home = Home.of(scene.settings, tables)
    at = take_moment(home)
    scene.batch(1)  # later than the moment

    by_delta_rs, by_spark = (
        Checker(replace(home, opened=store)) for store in (scene.store, SparkStore(spark, scene.lakehouse))
    )

    result = by_delta_rs.all(at)
    broken = {(name, rule) for name, rule in BAD if TABLE[name] in tables}
    assert failed(result) >= broken | {("silver.requests", "rows_accounted_for")}
    assert "usual_volume" in {r["expectation"] for r in result}
    assert result == by_spark.all(at)
    assert by_delta_rs.has_new(at) and by_spark.has_new(at)


def test_the_command_says_what_holds_and_writes_the_docs_without_java(scene: Scene) -> None:
    done = processes.run(
        [sys.executable, "-m", "tidemark", "quality", "--home", str(scene.settings.home)],
        env={**os.environ, "JDK_JAVA_OPTIONS": "--no-java-starts-with-this"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    message = done.stdout
    assert "silver.requests" in message and "rows_accounted_for" in message and "0 failed" in message
    docs = scene.settings.home / "quality" / "docs"
    assert f"Data Docs: {docs / 'index.html'}" in message
    index = (docs / "index.html").read_text()
    assert "silver.requests.rows" in index
    pages = [page.read_text() for page in docs.rglob("*.html")]
    assert any("A person&#39;s" in page or "successful GET of a page" in page for page in pages)
    # Readable without the internet: nothing is fetched from elsewhere.
    assert not any(re.search(r"<script|<(img|link)[^>]*https?://", page) for page in pages)
    assert "<td>failed</td>" not in index


def test_the_command_exits_3_on_a_critical_failure(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene.add("silver.requests", good(TABLE["silver.requests"], 5, visitor_id=None, country="ZZ"))
    home = str(scene.settings.home)

    assert _tidemark(monkeypatch, "quality", "--home", home, "--table", "silver.requests", "--json") == 3

    message = capsys.readouterr()
    # Great Expectations logs what it cannot write into the pages.
    assert not [each for each in caplog.records if each.name.startswith("great_expectations")]
    results = json.loads(message.out)["results"]
    assert {r["table"] for r in results} == {"silver.requests"}
    assert {e for _, e in failed(results)} == {"visitor_known", "country_located", "rows_accounted_for"}
    assert "silver.requests: visitor_known" in message.err
    assert "country_located" not in message.err  # only information
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    arguments = ("quality", "--home", home, "--table", "silver.sessions", "--since", tomorrow)
    assert _tidemark(monkeypatch, *arguments) == 0


@pytest.mark.parametrize(
    "arguments, message",
    [((), "no tables yet in"), (("--table", "silver.nothing"), "no table silver.nothing")],
)
def test_the_command_says_what_is_missing(
    home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    assert _tidemark(monkeypatch, "quality", "--home", str(home.home), *arguments) == 1
    assert message in capsys.readouterr().err


def _tidemark(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["tidemark", *arguments])
    # A command that ran in this process before may log in place of printing.
    monkeypatch.setattr(logging.getLogger("tidemark"), "handlers", [])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
