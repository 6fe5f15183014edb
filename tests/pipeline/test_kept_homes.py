"""Homes that earlier releases made go on as if nothing had happened, also with a column or a table more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from gold import traffic
from tests.fixtures.home import HOMES, KEPT, LINES, START, lines, unpack
from tests.pipeline.harness import assert_equal, deliver, rows, run_here
from tests.pipeline.recount import delivered_once, recount
from tidemark import pipeline
from tidemark.cli import tidemark
from tidemark.contract.table import Column
from tidemark.engine.counts import Sum
from tidemark.errors import TableError
from tidemark.figures.declared import Goal
from tidemark.figures.report_specs import BY_NAME
from tidemark.operate import backfill
from tidemark.service.forget import forget_visitor
from tidemark.service.rebuild import rebuild_table
from tidemark.settings import Settings

LATER = lines(2, 150, START + LINES * 20 - 1_000)
REPORTS = [name for name, spec in BY_NAME.items() if spec.common and not spec.argument]
RANGE = ("--from", "2026-05-28", "--to", "2026-05-29")
TRAFFIC = ["site", "window_start", "visitors", "pageviews", "requests", "bot_requests", "bytes",
           *(f"status_{c}xx" for c in (2, 3, 4, 5))]  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """What a kept home lacks at first: `filled` tables are filled with history, and `lacking` tables are not complete
    before."""

    filled: frozenset[str]
    lacking: frozenset[str]


FOLLOWING = {table.name for table in pipeline.LAYER_TABLES if table.follows}


def kept(*, without: Collection[str], older: Collection[str]) -> Kept:
    """A home without some tables, and with tables that lack a column, or had another flow. Tables that follow others
    are made, not filled."""
    filled = frozenset({*without, *older}) - FOLLOWING
    return Kept(filled, filled | FOLLOWING)


# Made of requests; the first home has the others.
_LATER = {table.name for table in pipeline.LAYER_TABLES if table.aggregation} - {
    "silver.sessions", "gold.visitors_by_country", "gold.traffic", "gold.pages",
}  # fmt: skip
_CHANGED = (
    "silver.requests", "silver.rejected", "silver.sessions", "gold.visitors_by_country", "gold.traffic"
)  # fmt: skip
OF = {
    "home-0.1.tar.gz": kept(without=_LATER, older=_CHANGED),
    "home-0.1-2026-11-26.tar.gz": kept(
        without=["gold.networks"],
        older=["silver.requests", "silver.visitor_days", "gold.bots", "gold.bot_pages"],
    ),
}


def incomplete(settings: Settings) -> set[object]:
    return {
        name for name, complete in rows(settings, "quality.tables", ["table", "complete"]) if not complete
    }


def test_the_kept_homes_are_small() -> None:
    assert set(KEPT) == set(OF)
    assert all((HOMES / name).stat().st_size < 300_000 for name in KEPT)


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_home_goes_on(name: str, broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings, sent = unpack(name, broker, tmp_path)
    pairs, duplicate = delivered_once(sent)
    assert_equal(settings, recount(pairs), duplicate, without=OF[name].lacking)
    # Some of its lines once more: their ids are still known.
    more = [*LATER[:100], *sent[-60:], *LATER[100:]]
    deliver(settings, more)
    batches = rows(settings, "quality.progress", ["flow", "batch_id"])
    run_here(spark, settings)
    pairs, duplicate = delivered_once([*sent, *more])
    assert duplicate > 40
    # Its columns that are gone today do not keep new rows out.
    assert set(batches) < set(rows(settings, "quality.progress", ["flow", "batch_id"]))
    assert_equal(settings, recount(pairs), duplicate, without=OF[name].lacking)
    # Tables with columns that the home did not have are filled with their history.
    assert incomplete(settings) == OF[name].filled
    home = pipeline.Pipeline.of(settings).on(spark)
    backfill.fill(home, home.rebuild)
    declared = {(table.name, True) for table in pipeline.TABLES}
    assert set(rows(settings, "quality.tables", ["table", "complete"])) == declared
    assert_equal(settings, recount(pairs), duplicate)
    assert set(rows(settings, "silver.requests", ["format"])) == {("combined",)}
    assert all(row[0] for row in rows(settings, "silver.requests", ["kafka_timestamp"]))
    assert set(rows(settings, "silver.rejected", ["nearest_format"])) == {(None,)}
    assert all(row[0] is not None for row in rows(settings, "silver.sessions", ["source"]))
    # The rows of a part of history replace those in tables whose columns had other descriptions.
    since = datetime.fromtimestamp(START + LINES * 10, UTC)
    rebuild_table(settings, "silver.requests", since, dry_run=False, report=lambda tables, done, total: None)
    assert_equal(settings, recount(pairs), duplicate)


@pytest.mark.parametrize("name", KEPT)
def test_before_the_pipeline_has_run_reports_name_it_and_an_address_is_forgotten(
    name: str, broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings, sent = unpack(name, broker, tmp_path)
    lacking = []
    for report in REPORTS:
        asked = CliRunner().invoke(tidemark, ["report", report, "--home", str(settings.home), *RANGE])
        if asked.exit_code:
            assert isinstance(asked.exception, TableError), (report, asked.exception)
            assert "`tidemark run" in asked.exception.remedy, (report, asked.exception)
            lacking.append(report)
    assert "networks" in lacking

    address = "10.0.0.1"
    assert forget_visitor(settings, visitor="", address=address).rows["silver.requests"] > 0
    run_here(spark, settings)
    assert incomplete(settings) == OF[name].filled
    rebuild_table(settings, "all", None, dry_run=False, report=lambda tables, done, total: None)
    pairs, duplicate = delivered_once(sent)
    left = [pair for pair in pairs if not pair[1].startswith(f"{address} ".encode())]
    assert_equal(settings, recount(left), duplicate)


def test_a_column_and_a_table_more_need_nothing(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, sent = unpack(KEPT[-1], broker, tmp_path)
    more = replace(traffic.COUNTS, sums={**traffic.COUNTS.sums, "errors": Sum("status", within=(400, 599))})
    wider = replace(
        traffic.TABLE,
        columns=(*traffic.TABLE.columns, Column("errors", "long", "Responses that tell of an error.")),
        aggregation=lambda meaning: more,
    )
    again = replace(traffic.TABLE, name="gold.traffic_again")
    for name in ("LAYER_TABLES", "TABLES"):
        tables = [wider if table.name == wider.name else table for table in getattr(pipeline, name)]
        monkeypatch.setattr(pipeline, name, (*tables, again))

    deliver(settings, LATER)
    run_here(spark, settings)
    pairs, duplicate = delivered_once([*sent, *LATER])
    expected = recount(pairs)
    assert_equal(settings, expected, duplicate, without=OF[KEPT[-1]].lacking)
    assert incomplete(settings) == {wider.name, again.name, *OF[KEPT[-1]].filled}
    # The new table counts what came after it, ...
    assert set(rows(settings, again.name, TRAFFIC)) == recount(delivered_once(LATER)[0]).traffic
    # ... and a rebuild gives the new column its past.
    job = pipeline.Pipeline.of(settings).on(spark).rebuild()
    job.run([wider.name])
    assert_equal(settings, expected, duplicate, without=OF[KEPT[-1]].lacking)
    errors = rows(settings, wider.name, ["errors", "status_4xx", "status_5xx"])
    assert all(e == c + s for e, c, s in errors)  # type: ignore[operator]
    assert sum(e for e, _, _ in errors) > 50  # type: ignore[misc]


def test_another_window_is_refused_until_the_table_is_rebuilt(
    broker: Settings, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, sent = unpack(KEPT[-1], broker, tmp_path)
    shorter = settings.changed(session_gap_seconds=120)
    found = set(rows(settings, "silver.sessions", ["session_id"]))
    with pytest.raises(TableError, match=r"silver\.sessions no longer fits: gap was 1800 s, now 120 s"):
        run_here(spark, shorter)
    assert set(rows(settings, "silver.sessions", ["session_id"])) == found
    rebuild_table(shorter, "silver.sessions", None, dry_run=False, report=lambda *_: None)
    [(cause, text)] = rows(settings, "quality.notes", ["cause", "text"])
    assert cause == "settings" and str(text).endswith("session_gap_seconds was 1800, now 120")
    deliver(shorter, LATER)
    run_here(spark, shorter)
    pairs, duplicate = delivered_once([*sent, *LATER])
    assert_equal(shorter, recount(pairs, gap_seconds=120), duplicate, without=OF[KEPT[-1]].lacking)


def test_a_goal_is_counted_over_all_history_and_again_if_it_changes(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings, _ = unpack(KEPT[-1], broker, tmp_path)

    def counted(goal: Goal) -> set[tuple[object, ...]]:
        meaning = replace(settings.meaning, goals={"found": goal})
        with_goal = replace(settings, meaning=meaning)
        run_here(spark, with_goal)
        home = pipeline.Pipeline.of(with_goal).on(spark)
        backfill.fill(home, home.rebuild)
        assert not incomplete(with_goal)
        found = rows(settings, "gold.goals", ["definition", "conversions"])
        return {(definition, sum(n for d, n in found if d == definition)) for definition, _ in found}  # type: ignore[misc]

    deliver(settings, LATER)
    any_page, missing = Goal(path="*", method="GET", status=200), Goal(path="*", status=404)
    sessions = len(rows(settings, "silver.sessions", ["session_id"]))
    found = counted(any_page)
    assert sessions < len(rows(settings, "silver.sessions", ["session_id"]))
    assert found == {(any_page.definition, _with(settings, status=200))}
    assert counted(missing) == {(missing.definition, _with(settings, status=404))}


def _with(settings: Settings, status: int) -> int:
    """The sessions with a request of this status, one by one."""
    columns = ["site", "visitor_id", "event_time", "status", "method", "bot"]
    lines = [line for line in rows(settings, "silver.requests", columns) if line[3] == status and not line[5]]
    lines = [line for line in lines if status == 404 or line[4] == "GET"]
    sessions = rows(settings, "silver.sessions", ["site", "visitor_id", "start_time", "end_time"])
    return sum(
        any(line[:2] == (site, visitor) and start <= line[2] < end + 1800 for line in lines)  # type: ignore[operator]
        for site, visitor, start, end in sessions
    )
