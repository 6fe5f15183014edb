"""Rebuilt tables equal those of the current rules over the same lines; after a kill, all or nothing has changed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from silver import requests
from tests import processes
from tests.operate.alerts.targets import http_endpoint
from tests.pipeline.declared_goals import CONDITIONS
from tests.pipeline.harness import (
    assert_equal,
    deliver,
    fresh,
    produce,
    rows,
    run_here,
    run_process,
)
from tests.pipeline.recount import Delivery, recount
from tests.recovery.killing import Pair, await_running, declaring, traffic
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule
from tidemark.errors import HomeBusyError, TableError
from tidemark.home import ACTIVITY
from tidemark.local.locks import locked
from tidemark.local.process import wait_until
from tidemark.operate import difference, status
from tidemark.operate.difference import Changed, Difference, Revalued
from tidemark.operate.difference import lines as lines_of
from tidemark.operate.mails.record import recorded
from tidemark.operate.mails.watch import Mails
from tidemark.operate.rows import Rows
from tidemark.pipeline import LAYER_TABLES, Pipeline
from tidemark.service.rebuild import rebuild_table
from tidemark.settings import Settings
from tidemark.settings.mails import Mailing
from tidemark.settings.sites import SiteSettings
from tidemark.stream.lag import table_lag
from tidemark.stream.swap import Swap
from tidemark.traffic.site import HOST, ORIGIN

# A rule that turns away good lines: it was wrong, and is gone today.
WRONG = RejectingRule(
    "no_errors", column("status") < 400, "status", "A rule that was wrong.", unless=~column("well_formed")
)
BAD = [("default", b"no log line"), ("shop", b"")]


def rebuild(spark: SparkSession, settings: Settings, *names: str, **options: object) -> list[Changed]:
    return Pipeline.of(settings).on(spark).rebuild().run(names, **options)  # type: ignore[arg-type]


def versions(settings: Settings) -> dict[str, int]:
    return {
        table.name: DeltaTable(settings.tables / table.name.replace(".", "/")).version()
        for table in LAYER_TABLES
    }


def validated_wrongly(spark: SparkSession, settings: Settings, pairs: list[Pair]) -> None:
    """Runs the pipeline under a rule that turns errors away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "REJECTING", (*requests.REJECTING, WRONG))
        produce(settings, pairs)
        run_here(spark, settings)


@pytest.fixture(scope="module")
def lines() -> list[Pair]:
    return [*traffic(seed=21, lines=3_000), *BAD]


@pytest.fixture(scope="module")
def wrong_original(
    broker: Settings, spark: SparkSession, lines: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """A home whose tables were made under the wrong rule, to be copied."""
    settings = fresh(broker, tmp_path_factory.mktemp("wrong"))
    validated_wrongly(spark, settings, lines)
    assert len(rows(settings, "silver.rejected", ["offset"])) > 50
    return settings


@pytest.fixture
def wrong(wrong_original: Settings, tmp_path: Path) -> Settings:
    """A copy of that home."""
    shutil.copytree(wrong_original.home, tmp_path / "home")
    return wrong_original.changed(home=tmp_path / "home")


def test_rejected_lines_move_to_silver_and_everything_follows(
    wrong: Settings, spark: SparkSession, lines: list[Pair]
) -> None:
    before = versions(wrong)
    expected = recount(lines)
    foretold = rebuild(spark, wrong, "silver.requests", dry_run=True)
    assert versions(wrong) == before
    assert not (wrong.home / "swap").exists()
    result = rebuild(spark, wrong, "silver.requests")
    assert result == foretold
    assert_equal(wrong, expected)
    days = [each for each in result if isinstance(each, Difference)]
    assert days == result  # no line has another value
    moved = sum(d.after - d.before for d in days if (d.table, d.what) == ("silver.requests", "rows"))
    assert moved == -sum(d.after - d.before for d in days if (d.table, d.what) == ("silver.rejected", "rows"))
    assert moved > 50
    assert {d.table for d in result} >= {"gold.traffic", "gold.visitors_by_country", "silver.rejected"}
    sites = rows(wrong, "quality.sites", ["accepted", "rejected"])
    assert sum(s[0] for s in sites) == expected.accepted  # type: ignore[misc]
    # The second flow passes over rewritten rows, so none of them waits.
    pipeline = Pipeline.of(wrong)
    waiting = partial(pipeline.store.rows_since, pipeline.graph.accepted)
    assert table_lag(waiting, pipeline.checkpoint(ACTIVITY)) == 0
    assert sum(s[1] for s in sites) == expected.rejected  # type: ignore[misc]


def test_a_report_that_was_sent_is_not_sent_again(wrong: Settings, spark: SparkSession) -> None:
    (newest,) = max(rows(wrong, "silver.requests", ["event_time"]))
    tomorrow = datetime.fromtimestamp(float(str(newest)), UTC) + timedelta(days=1)
    with http_endpoint() as endpoint:
        settings = replace(wrong, reports={"daily": Mailing("shop", "day", "00:00", (endpoint.url,))})
        home = Pipeline.of(settings).on(spark)
        sender = Mails(home, lambda: tomorrow)
        assert wait_until(lambda: sender.look() == "" and bool(endpoint.taken), 60)
        sent = recorded(home.store, "daily")
        assert [row.state for row in sent] == ["sent"]

        # The report's figures are others now.
        moved = [each for each in rebuild(spark, settings, "silver.requests") if each.table == "gold.traffic"]
        assert moved
        assert Mails(home, lambda: tomorrow).look() == ""
        assert recorded(home.store, "daily") == sent and len(endpoint.taken) == 1


def test_executors_make_the_same(
    wrong: Settings, spark: SparkSession, lines: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    foretold = rebuild(spark, wrong, "silver.requests", dry_run=True)
    monkeypatch.setattr(Rows, "few", property(lambda rows: rows.slices[0].table.layer == "gold"))
    assert rebuild(spark, wrong, "silver.requests") == foretold
    assert_equal(wrong, recount(lines))


def test_lines_that_changed_rules_give_other_values_are_counted(
    wrong: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(wrong, "silver.requests", ["site", "channel", "referrer"])
    own = [site == "default" and str(referrer).startswith(f"{ORIGIN}/") for site, _, referrer in before]
    settings = replace(wrong, sites={"default": SiteSettings(hosts=(HOST,))})
    assert settings.sites != wrong.sites

    result = rebuild(spark, settings, "silver.requests", dry_run=True)

    (channel,) = (each for each in result if isinstance(each, Revalued) and each.what == "channel")
    assert channel == Revalued("silver.requests", "channel", sum(own), len(before)) and sum(own) > 100
    assert f"{sum(own):,} lines of {len(before):,} have another channel" in "\n".join(lines_of(result))
    monkeypatch.setattr(difference, "_in_process", difference._in_executors)
    assert rebuild(spark, settings, "silver.requests", dry_run=True) == result


def test_rebuild_while_the_stream_goes_on(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    """The running pipeline takes over a changed goal and own hosts, and applies them to history, despite a kill."""
    settings = fresh(broker, tmp_path)
    pairs = traffic(seed=23, lines=4_000)
    validated_wrongly(spark, settings, pairs[:2_000])
    versions_before = set(rows(settings, "silver.requests", ["rules_version"]))
    declaring(settings, {"goals": {"product": {"path": "/cart"}}})
    # The first pass is that of the new goal.
    process = run_process(settings, once=False, crash_at="rebuild:caught-up@2")
    try:
        await_running(settings, process)
        before = await_note(settings, r"Goal product is new: (\d+) conversions")
        assert before == conversions(settings) > 0
        sender = processes.Popen(
            [sys.executable, "-c", _SENDER, str(settings.kafka.topic), settings.kafka.bootstrap_servers],
            stdin=subprocess.PIPE,
        )
        assert sender.stdin is not None
        sender.stdin.write(b"".join(site.encode() + b"\t" + line + b"\n" for site, line in pairs[2_000:]))
        sender.stdin.close()
        goals = {"goals": {"product": {"path": "/products/*"}}, "sites": {"shop": {"hosts": [HOST]}}}
        settings = declaring(settings, goals)
        output = process.communicate(timeout=90)[0]
        assert process.returncode == -signal.SIGKILL, output
        assert status.describe(settings)["own_hosts"]["sites"] == ["shop"]
        process = run_process(settings, once=False)
        lines_changed = r"Own hosts of shop: ([\d,]+) lines of [\d,]+ have another channel"
        assert await_note(settings, rf"{lines_changed}; sites\.shop\.hosts was unset, now {HOST}") > 100
        after = await_note(settings, r"Goal product: \d+ → (\d+) conversions")
        assert after > before
        assert sender.wait(60) == 0
        assert process.poll() is None, process.communicate()[0]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert re.search(r"parts of .*gold\.traffic.* are staged already", output)
    run_here(spark, settings)
    expected = recount(pairs, hosts={"shop": [HOST]}, goals={"product": CONDITIONS["product"]})
    assert_equal(settings, expected)
    assert not versions_before & set(rows(settings, "silver.requests", ["rules_version"]))
    lines = rows(settings, "silver.requests", ["site", "channel"])
    assert ("shop", "internal") in lines and ("default", "internal") not in lines
    assert status.describe(settings)["own_hosts"] == {}


def await_note(settings: Settings, pattern: str) -> int:
    """The number in a note, once there is one of this pattern."""
    result: list[int] = []

    def noted() -> bool:
        there = DeltaTable.is_deltatable(str(settings.tables / "quality/notes"))
        texts = [str(text) for (text,) in rows(settings, "quality.notes", ["text"])] if there else []
        result.extend(
            int(match[1].replace(",", "")) for text in texts if (match := re.fullmatch(pattern, text))
        )
        return bool(result)

    assert wait_until(noted, 90), rows(settings, "quality.notes", ["text"])
    return result[0]


def conversions(settings: Settings) -> int:
    return sum(int(str(n)) for (n,) in rows(settings, "gold.goals", ["conversions"]))


_SENDER = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[2]})
for number, line in enumerate(sys.stdin.buffer):
    site, value = line.rstrip(b"\\n").split(b"\\t", 1)
    producer.produce(sys.argv[1], value, headers=[("site", site)], partition=(number // 50) % 2)
    if number % 20 == 0:
        producer.flush()
        time.sleep(0.1)
producer.flush()
"""


def test_since_validates_only_lines_that_arrived_after(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    pairs = traffic(seed=24, lines=3_000)
    validated_wrongly(spark, settings, pairs[:1_000])
    time.sleep(0.1)
    since = datetime.now(UTC)
    validated_wrongly(spark, settings, pairs[1_000:2_000])
    rebuild(spark, settings, "silver.requests", since=since)
    # The stream goes on after a rebuild as if nothing had happened.
    produce(settings, pairs[2_000:])
    run_here(spark, settings)
    # As if errors had been turned away only among the first lines.
    kept = [pair for pair in pairs[:1_000] if not _is_error(pair)] + pairs[1_000:]
    expected = recount(kept)
    rejected = sum(_is_error(pair) for pair in pairs[:1_000])
    assert_equal(settings, replace(expected, rejected=expected.rejected + rejected))


def _is_error(pair: Pair) -> bool:
    words = pair[1].split(b'"')
    return len(words) > 2 and words[2].split()[0] >= b"400"


def test_damaged_tables_are_made_anew(wrong: Settings, spark: SparkSession) -> None:
    columns = {
        "silver.sessions": ["session_id", "start_time", "end_time", "pageviews", "closed", "entry_page"],
        "gold.traffic": ["site", "window_start", "requests", "visitors", "bytes"],
        "gold.pages": ["site", "window_start", "path", "pageviews", "visitors"],
        "gold.visitors_by_country": ["site", "window_start", "country", "visitors", "requests"],
        "gold.sources": [
            "site",
            "window_start",
            "channel",
            "source",
            "campaign",
            "visitors",
            "sessions",
            "pageviews",
        ],
    }
    before = {name: set(rows(wrong, name, columns[name])) for name in columns}
    for name in columns:
        DeltaTable(wrong.tables / name.replace(".", "/")).delete("site = 'shop'")
        assert set(rows(wrong, name, columns[name])) < before[name]
    rebuild(spark, wrong, "gold.traffic")
    assert set(rows(wrong, "gold.traffic", columns["gold.traffic"])) == before["gold.traffic"]
    result = rebuild(spark, wrong, *columns, since=datetime(2026, 1, 1, tzinfo=UTC))
    assert {d.table for d in result} == set(columns) - {"gold.traffic"}
    assert {name: set(rows(wrong, name, columns[name])) for name in columns} == before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_before_the_swap_it_changed_nothing_and_after_that_the_next_start_finishes_it(
    wrong: Settings, spark: SparkSession, lines: list[Pair]
) -> None:
    before = versions(wrong)
    killed_rebuild(wrong, "swap:before-journal@1", "gold.traffic")
    assert not Swap(wrong).interrupted
    assert versions(wrong) == before
    killed_rebuild(wrong, "swap:between-tables@4")
    assert Swap(wrong).interrupted
    run_here(spark, wrong)
    assert_equal(wrong, recount(lines))
    assert not Swap(wrong).interrupted


@pytest.mark.soak
@pytest.mark.parametrize("point", ["swap:between-tables@1", "swap:before-end@1"])
def test_killed_at_other_moments_of_the_swap(
    wrong: Settings, spark: SparkSession, lines: list[Pair], point: str
) -> None:
    killed_rebuild(wrong, point)
    assert Swap(wrong).interrupted
    run_here(spark, wrong)
    assert_equal(wrong, recount(lines))
    assert not Swap(wrong).interrupted


@pytest.mark.soak
def test_killed_before_the_swap_the_next_rebuild_does_it_all(
    wrong: Settings, spark: SparkSession, lines: list[Pair]
) -> None:
    before = versions(wrong)
    killed_rebuild(wrong, "rebuild:staging@2")
    assert not Swap(wrong).interrupted and versions(wrong) == before
    rebuild(spark, wrong, "silver.requests")
    assert_equal(wrong, recount(lines))


_RESUMABLE = """
from tidemark.pipeline import Pipeline
from tidemark.settings import load

Pipeline.of(load()).rebuild().run(["silver.requests"], resumable=True)
"""


def test_killed_after_it_caught_up_the_next_one_adds_no_line_twice(
    broker: Settings, spark: SparkSession, lines: list[Pair], tmp_path: Path
) -> None:
    """Each time the second flow lags behind the lines that the rebuild adds last. The topic is its own."""
    wrong = fresh(broker, tmp_path)
    validated_wrongly(spark, wrong, lines)
    more = [traffic(seed=25, lines=300), traffic(seed=26, lines=200)]
    _first_flow(spark, wrong, more[0])
    killed(wrong, "rebuild:caught-up", "-c", _RESUMABLE)
    _first_flow(spark, wrong, more[1])
    rebuild(spark, wrong, "silver.requests", resumable=True)
    run_here(spark, wrong)
    assert_equal(wrong, recount([*lines, *more[0], *more[1]]))


def _first_flow(spark: SparkSession, settings: Settings, pairs: list[Pair]) -> None:
    """Has the first flow alone process these lines."""
    produce(settings, pairs)
    run_here(spark, settings, slice(1))


def killed_rebuild(settings: Settings, point: str, table: str = "all") -> None:
    killed(settings, point, "-m", "tidemark", "rebuild", table)


def killed(settings: Settings, point: str, *python: str) -> None:
    """Runs Python with these arguments until it kills itself at the point."""
    done = processes.run(
        [sys.executable, *python],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": point},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def no_report(what: str, done: int, total: int) -> None: ...


def test_clear_errors(wrong: Settings, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"bronze\.access_log cannot be rebuilt"):
        rebuild_table(wrong, "bronze.access_log", None, dry_run=True, report=no_report)
    with pytest.raises(TableError, match="no tables yet"):
        rebuild_table(wrong.changed(home=tmp_path / "empty"), "all", None, dry_run=True, report=no_report)
    with locked(wrong.run_directory / "one-rebuild.lock"), pytest.raises(HomeBusyError, match="rebuild"):
        rebuild(spark, wrong, "gold.traffic")


def test_a_setting_changed_before_the_first_run_was_complete_leads_to_no_dead_end(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """The pipeline refuses rows that no longer fit and names the rebuild, which then completes the run itself."""
    settings, pairs = fresh(broker, tmp_path), traffic(seed=22, lines=1_000)
    produce(settings, pairs)
    run_here(spark, settings, which=slice(1))  # stopped before the second flow's first batch
    changed = settings.changed(session_gap_seconds=1200)
    with pytest.raises(TableError, match=r"no longer fits.*tidemark rebuild silver\.session"):
        run_here(spark, changed)
    with pytest.raises(TableError, match=r"has not run yet.*without --dry-run"):
        rebuild_table(changed, "silver.sessions", None, dry_run=True, report=no_report)
    rebuild_table(changed, "silver.sessions", None, dry_run=False, report=no_report)
    run_here(spark, changed)
    assert_equal(changed, recount(pairs, gap_seconds=1200))


def test_a_line_rejected_at_two_deliveries_is_accepted_once(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    pairs = [pair for pair in traffic(seed=26, lines=1_200) if not _is_error(pair)]
    missing = b'203.0.113.7 - - [28/May/2026:20:50:0%d +0000] "GET /a HTTP/1.1" 404 9 "-" "Mozilla/5.0 Firefox/140.0"'
    first, second, third = (Delivery("shop", missing % n, f"id-{n}", 0, 1_780_010_000) for n in (1, 2, 3))
    accepted_since = replace(second, line=pairs[0][1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "REJECTING", (*requests.REJECTING, WRONG))
        produce(settings, pairs[1:])
        deliver(settings, [first, replace(first, partition=1), second, third])
        run_here(spark, settings)
        deliver(settings, [first, accepted_since])
        run_here(spark, settings)
    assert len(rows(settings, "silver.rejected", ["offset"])) == 5
    rebuild(spark, settings, "silver.requests")
    # `first` was rejected three times, `second` was followed by a good line of the same id.
    expected = recount([*pairs[1:], ("shop", first.line), ("shop", third.line), ("shop", pairs[0][1])])
    assert_equal(settings, replace(expected, rejected=expected.rejected + 3))
    kept = [reasons for (reasons,) in rows(settings, "silver.rejected", ["reasons"])]
    assert kept == [["delivered_twice"]] * 3
    assert rebuild(spark, settings, "silver.requests") == []
    # From then on it has been accepted.
    deliver(settings, [first, third])
    run_here(spark, settings)
    assert_equal(settings, replace(expected, rejected=expected.rejected + 3), duplicate=2)
