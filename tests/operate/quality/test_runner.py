"""Quality runs over real Delta tables: new rows, accounts, freshness, volume, the watch, the command."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.operate.quality.rows import good, rows
from tidemark import cli
from tidemark.contract.quality_tables import RESULTS
from tidemark.operate.quality.runner import Runner, watch
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

TABLE = {table.name: table for table in TABLES}
BOOKS = ("bronze.access_log", "silver.requests", "silver.rejected", "quality.accounts")
Results = list[dict[str, Any]]


@dataclass
class Scene:
    """A home whose tables hold one batch: three lines, two accepted and one rejected."""

    spark: SparkSession
    settings: Settings
    house: Lakehouse
    store: DeltaRsStore

    def add(self, name: str, *found: dict[str, Any]) -> None:
        self.store.append_arrow(TABLE[name], rows(TABLE[name], *found))

    def batch(self, number: int, **requests: Any) -> None:
        at = 10 * number
        self.add("bronze.access_log", *(good(TABLE["bronze.access_log"], at + i) for i in range(3)))
        self.add("silver.requests", *(good(TABLE["silver.requests"], at + i, **requests) for i in range(2)))
        self.add("silver.rejected", good(TABLE["silver.rejected"], at + 2))
        self.add("quality.accounts", good(TABLE["quality.accounts"], number))

    def runner(self, names: tuple[str, ...] = BOOKS, **settings: Any) -> Runner:
        tables = [TABLE[name] for name in names]
        changed = self.settings.changed(**settings)
        return Runner(self.spark, changed, self.house, self.store, tables)


@pytest.fixture
def scene(spark: SparkSession, home: Settings) -> Scene:
    house = lakehouse.of(home)
    made = Scene(spark, home, house, DeltaRsStore(house))
    for table in TABLES:
        made.store.ensure(table)
    made.batch(0)
    return made


def failed(results: Results) -> set[tuple[str, str]]:
    return {(r["table"], r["expectation"]) for r in results if not r["success"]}


def test_a_sound_batch_passes_and_leaves_complete_rows(scene: Scene) -> None:
    results = scene.runner().run_new()

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
    results = scene.runner(retention_days=limits).run_new()

    assert {r["table"] for r in results if r["expectation"] == "rows_accounted_for"} == compared


def test_only_new_rows_are_looked_at(scene: Scene) -> None:
    scene.add("silver.requests", good(TABLE["silver.requests"], 5, status=99))
    runner = scene.runner(("silver.requests",))
    assert ("silver.requests", "invalid_status") in failed(runner.run_new())

    scene.batch(1)
    results = runner.run_new()

    assert ("silver.requests", "invalid_status") not in failed(results)
    [checked] = [r for r in results if r["expectation"] == "invalid_status"]
    assert checked["observed_value"] == "0 of 2 rows"
    assert runner.run_new(only_if_new=True) == []


def test_a_new_process_goes_on_where_the_last_run_stopped(scene: Scene) -> None:
    january = datetime(2026, 1, 1, tzinfo=UTC)
    scene.add("silver.requests", good(TABLE["silver.requests"], 5, ingested_at=january))
    scene.runner(("silver.requests",)).run_new()

    [checked] = [
        r for r in scene.runner(("silver.requests",)).run_new() if r["expectation"] == "invalid_status"
    ]

    assert checked["observed_value"] == "0 of 2 rows"  # those of the last minutes, not January's


def test_accounts_that_do_not_balance_are_critical(scene: Scene) -> None:
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 1, received=4, accepted=0, rejected=3))

    results = scene.runner().run_new()

    assert ("quality.accounts", "balanced") in failed(results)
    assert all(r["severity"] == "critical" for r in results if not r["success"])


def test_a_row_too_many_is_found_and_stays_found(scene: Scene) -> None:
    runner = scene.runner()
    assert failed(runner.run_new()) == set()
    for name in BOOKS[:3]:
        scene.add(name, good(TABLE[name], 7))
    scene.batch(1)

    for _ in range(2):
        assert failed(runner.run_new()) >= {(name, "rows_accounted_for") for name in BOOKS[:3]}


def test_rows_written_after_the_clock_was_set_back_are_looked_at(scene: Scene) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    for number, name in enumerate(BOOKS[:3], start=5):
        clock = TABLE[name].clock
        scene.add(name, good(TABLE[name], number, **{clock: ahead}))
    counts = {"received": 1, "accepted": 1, "rejected": 0, "committed_at": ahead}
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 1, **counts))
    counts = {"received": 0, "accepted": 0, "rejected": 1, "committed_at": ahead}
    scene.add("quality.accounts", good(TABLE["quality.accounts"], 2, **counts))
    runner = scene.runner()
    before = failed(runner.run_new())

    scene.batch(3, status=99)

    assert failed(runner.run_new()) - before == {("silver.requests", "invalid_status")}
    assert failed(scene.runner().run_new()) - before == {("silver.requests", "invalid_status")}


def test_a_table_without_new_rows_is_not_fresh(scene: Scene) -> None:
    runner = scene.runner(freshness_limit_seconds=600)
    assert failed(runner.run_new()) == set()

    stale = scene.runner(freshness_limit_seconds=0.001).run_new()

    # The quarantine may well stay empty.
    assert failed(stale) == {(name, "fresh") for name in BOOKS if name != "silver.rejected"}
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

    [volume] = [r for r in scene.runner(("gold.traffic",)).run_new() if r["expectation"] == "usual_volume"]

    assert volume["success"] == usual
    assert volume["severity"] == "warning"
    assert volume["observed_value"] == f"of usual {last_hour / 100:.2f}"


def test_too_few_days_say_nothing_about_volume(scene: Scene) -> None:
    scene.add("gold.traffic", good(TABLE["gold.traffic"], window_start=datetime.now(UTC)))

    assert "usual_volume" not in {r["expectation"] for r in scene.runner(("gold.traffic",)).run_new()}


def test_the_watch_survives_a_failing_run(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    settings = scene.settings.changed(quality_interval_seconds=0.2)
    log = Path(scene.house.path(TABLE["silver.requests"])) / "_delta_log"
    hidden = log.with_name("hidden")
    log.rename(hidden)
    stopping = threading.Event()
    troubles: list[str] = []
    side = watch(
        scene.spark, settings, scene.house, DeltaRsStore(scene.house), [TABLE[n] for n in BOOKS],
        ended=troubles.append,
    )  # fmt: skip
    thread = threading.Thread(target=side, args=(stopping,))
    with caplog.at_level(logging.ERROR, "tidemark.operate.quality"):
        thread.start()
        try:
            _until(lambda: any("quality run failed" in r.message for r in caplog.records))
            assert scene.store.read(RESULTS).num_rows == 0
            hidden.rename(log)
            _until(lambda: scene.store.read(RESULTS).num_rows > 0)
            _until(lambda: not troubles[-1])
        finally:
            stopping.set()
            thread.join(timeout=60)
    assert not thread.is_alive()
    assert "silver/requests" in troubles[0]
    assert all("\n" not in r.getMessage() for r in caplog.records)


def test_the_command_says_what_holds_and_writes_the_docs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tidemark(monkeypatch, "quality", "--home", str(scene.settings.home)) == 0

    said = capsys.readouterr().out
    assert "silver.requests" in said and "rows_accounted_for" in said and "0 failed" in said
    docs = scene.settings.home / "quality" / "docs"
    assert f"Data Docs: {docs / 'index.html'}" in said
    index = (docs / "index.html").read_text()
    assert "silver.requests.rows" in index
    pages = [page.read_text() for page in docs.rglob("*.html")]
    assert any("A person&#39;s" in page or "successful GET of a page." in page for page in pages)
    # Readable without the internet: nothing is fetched from elsewhere.
    assert not any(re.search(r"<script|<(img|link)[^>]*https?://", page) for page in pages)
    assert "<td>failed</td>" not in index


def test_the_command_exits_3_on_a_critical_failure(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.add("silver.requests", good(TABLE["silver.requests"], 5, visitor_id=None, country="ZZ"))
    home = str(scene.settings.home)

    assert _tidemark(monkeypatch, "quality", "--home", home, "--table", "silver.requests", "--json") == 3

    said = capsys.readouterr()
    results = json.loads(said.out)["results"]
    assert {r["table"] for r in results} == {"silver.requests"}
    assert {e for _, e in failed(results)} == {"visitor_known", "country_located", "rows_accounted_for"}
    assert "silver.requests: visitor_known" in said.err
    assert "country_located" not in said.err  # only information
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    arguments = ("quality", "--home", home, "--table", "silver.sessions", "--since", tomorrow)
    assert _tidemark(monkeypatch, *arguments) == 0


@pytest.mark.parametrize(
    "arguments, said", [((), "no tables yet in"), (("--table", "silver.nothing"), "no table silver.nothing")]
)
def test_the_command_says_what_is_missing(
    home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    assert _tidemark(monkeypatch, "quality", "--home", str(home.home), *arguments) == 1
    assert said in capsys.readouterr().err


def _tidemark(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["tidemark", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.1)
