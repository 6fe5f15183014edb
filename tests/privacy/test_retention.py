"""Lines, requests and figures are deleted by age, and no rebuild empties what it can no longer make."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh, produce, run_here
from tidemark.errors import SettingError
from tidemark.operate.retention import complete_from, limited, oldest_kept
from tidemark.pipeline import Pipeline
from tidemark.service.upkeep import maintain_tables, remaining_files
from tidemark.settings import Settings
from tidemark.settings.privacy import Privacy, SitePrivacy
from tidemark.settings.retention import RetentionSettings, retention_of

NOW = datetime.now(UTC)
# Ages of visits in hours; the edge of lines lies between the fourth and the fifth, that of requests before the fourth.
AGES = (1, 30, 50, 100, 300)
EDGE = RetentionSettings(lines="120h", requests="72h")


def line(age: float, path: str) -> tuple[str, bytes]:
    time = NOW - timedelta(hours=age)
    return (
        "shop",
        f'198.51.100.7 - - [{time:%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" 200 5 "-" "Mozilla/5.0"'.encode(),
    )


@pytest.fixture(scope="module")
def original(broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = fresh(broker, tmp_path_factory.mktemp("retention"))
    produce(settings, [line(age, path) for age in AGES for path in ("/", "/a")])
    produce(settings, [("shop", b"unreadable")])
    run_here(spark, settings)
    return settings


def table(settings: Settings, name: str) -> pa.Table:
    return DeltaTable(f"{settings.tables}/{name.replace('.', '/')}").to_pyarrow_table()


def figures(settings: Settings) -> dict[str, list[str]]:
    """The rows of gold without the time of writing."""
    actual = {}
    for each in Pipeline.of(settings).tables:
        if each.layer == "gold":
            rows = table(settings, each.name).drop_columns(["updated_at"])
            actual[each.name] = sorted(map(str, rows.to_pylist()))
    return actual


@pytest.fixture(scope="module")
def limited_home(original: Settings) -> tuple[Settings, dict[str, list[str]]]:
    """The home after upkeep with limits, and gold's rows before it."""
    settings = replace(original, retention=EDGE)
    before = figures(settings)
    maintain_tables(settings, at_once=True)
    return settings, before


def test_rows_leave_by_event_time_and_figures_stay(
    limited_home: tuple[Settings, dict[str, list[str]]], spark: SparkSession
) -> None:
    settings, before = limited_home
    assert len(table(settings, "bronze.access_log")) == 9  # with the line that arrived just now
    assert len(table(settings, "silver.requests")) == 6
    assert len(table(settings, "silver.sessions")) == 3
    assert len(table(settings, "silver.rejected")) == 1
    assert figures(settings) == before
    assert remaining_files(settings, "") == []
    # Without the setting, rows that have left are no loss either.
    unlimited = replace(settings, retention=RetentionSettings())
    assert {"bronze.access_log", "silver.requests"} <= limited(Pipeline.of(unlimited))
    # A second flow, and a line of a window at the edge, change nothing else.
    run_here(spark, settings)
    assert figures(settings) == before


def test_a_rebuild_leaves_older_figures_as_they_are(
    limited_home: tuple[Settings, dict[str, list[str]]], spark: SparkSession
) -> None:
    settings, before = limited_home
    pipeline = Pipeline.of(settings).on(spark)
    assert complete_from(pipeline, pipeline.graph.lines, NOW) is not None
    for names in (["silver.requests"], ["silver.sessions"], ["gold.traffic", "gold.sources"]):
        pipeline.rebuild().run(names)
        assert figures(settings) == before, names
        assert len(table(settings, "silver.requests")) == 6
        assert len(table(settings, "silver.sessions")) == 3
        [counted] = table(settings, "quality.sites").to_pylist()
        assert (counted["accepted"], counted["rejected"]) == (10, 1)


def test_requests_are_kept_longer_than_lines(broker: Settings, spark: SparkSession, tmp_path: Path) -> None:
    settings = replace(fresh(broker, tmp_path), retention=RetentionSettings(lines="72h"))
    produce(settings, [line(age, "/to/ana@example.org") for age in AGES])
    run_here(spark, settings)
    before = figures(settings)
    maintain_tables(settings, at_once=True)
    assert (len(table(settings, "bronze.access_log")), len(table(settings, "silver.requests"))) == (3, 5)
    Pipeline.of(settings).on(spark).rebuild().run(["silver.requests"])
    assert len(table(settings, "silver.requests")) == 5
    assert figures(settings) == before

    # Requests whose lines are gone are masked, too, and so are figures that name them.
    visitors = set(table(settings, "silver.requests")["visitor_id"].to_pylist())
    masked = replace(settings, privacy=Privacy(SitePrivacy("masked")))
    Pipeline.of(masked).on(spark).rebuild().run(["silver.requests"])
    requests = table(masked, "silver.requests").select(["client_ip", "path", "visitor_id"]).to_pylist()
    assert [(row["client_ip"], row["path"]) for row in requests] == [("198.51.100.0", "/to/removed")] * 5
    assert {row["visitor_id"] for row in requests} == visitors
    assert not [name for name, rows in figures(masked).items() if "ana@example.org" in str(rows)]
    anonymous = replace(settings, privacy=Privacy(SitePrivacy("anonymous")))
    Pipeline.of(anonymous).on(spark).rebuild().run(["silver.requests"])
    requests = (
        table(anonymous, "silver.requests").select(["client_ip", "user_agent", "visitor_id"]).to_pylist()
    )
    assert [(row["client_ip"], row["user_agent"]) for row in requests] == [(None, None)] * 5
    assert not {row["visitor_id"] for row in requests} & visitors


def test_the_edge_is_the_start_of_an_hour_or_of_a_window(original: Settings) -> None:
    pipeline = Pipeline.of(replace(original, retention=RetentionSettings("1d", "2d", "3d")))
    now = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
    graph = pipeline.graph
    assert oldest_kept(pipeline, graph.lines, now) == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert oldest_kept(pipeline, graph["silver.sessions"], now) == datetime(2026, 11, 19, 10, tzinfo=UTC)
    assert oldest_kept(pipeline, graph["silver.visitor_days"], now) == datetime(2026, 11, 19, tzinfo=UTC)
    assert oldest_kept(pipeline, graph["gold.traffic"], now) == datetime(2026, 11, 18, 10, tzinfo=UTC)
    assert oldest_kept(pipeline, graph["quality.accounts"], now) is None


@pytest.mark.parametrize(
    "ages", [{"lines": "30"}, {"lines": "0d"}, {"lines": "-3d"}, {"rows": "3d"}, {"lines": 3}]
)
def test_wrong_ages_are_errors(ages: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        retention_of(ages, "tidemark.toml")
