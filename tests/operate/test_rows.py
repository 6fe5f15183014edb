"""Rows of a table are the same, and give the same partial rows, whether they are read here or in executors."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from silver import requests
from tests.pipeline.harness import fresh, produce, run_here
from tests.recovery.killing import traffic
from tidemark.contract.expression import column
from tidemark.operate.corrections import spans
from tidemark.operate.difference import differences
from tidemark.operate.rows import Rows, Slice
from tidemark.operate.snapshot import Snapshot
from tidemark.settings import Settings
from tidemark.store import lakehouse, sizes

KEY = ("topic", "partition", "offset")


@pytest.fixture(scope="module")
def accepted(broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    settings = fresh(broker, tmp_path_factory.mktemp("rows"))
    produce(settings, traffic(seed=5, lines=600, rate=2))
    run_here(spark, settings)
    return Rows(lambda: spark, (Slice(lakehouse.of(settings), requests.TABLE, version=None),))


def ordered(rows: pa.Table) -> list[dict[str, object]]:
    return list(rows.sort_by([(name, "ascending") for name in KEY]).to_pylist())


def test_conditions_have_one_meaning(accepted: Rows) -> None:
    table = accepted.read()
    topic, middle = table["topic"][0].as_py(), table["event_time"][300].as_py()
    later = Snapshot({}, 0, {topic: {"0": 100}}, {}).later()
    chosen = accepted.where(later).where(column("event_time") >= middle)
    result = ordered(chosen.read())
    assert result == ordered(chosen.frame().toArrow().cast(table.schema))
    assert result == [
        row for row in ordered(table)
        if (row["partition"] != 0 or row["offset"] >= 100) and row["event_time"] >= middle  # type: ignore[operator]
    ]  # fmt: skip
    assert 0 < len(result) < table.num_rows
    rest = accepted.where(~later) + chosen + accepted.where(later).where(column("event_time") < middle)
    assert ordered(rest.read()) == ordered(table) == ordered(rest.frame().toArrow().cast(table.schema))
    none = accepted.where(column("event_time") < datetime(1971, 1, 1, tzinfo=UTC))
    assert none.is_empty() and none.frame().isEmpty() and not accepted.is_empty()


def test_aggregates_are_the_same_in_executors(accepted: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    half = accepted.where(column("status") < 300)
    ranges = [part.sql for part in accepted.ranges("event_time", 200)]
    assert len(ranges) > 1
    assert sum(accepted.where(part).read().num_rows for part in accepted.ranges("event_time", 200)) == (
        accepted.read().num_rows
    )
    result = spans(accepted), list(differences(requests.TABLE, half, accepted))
    assert sum(row["rows"] for row in result[0].values()) == accepted.read().num_rows and result[1]
    none = accepted.where(column("status") < 0)
    assert accepted.few
    monkeypatch.setattr(sizes, "FEW_ROWS", -1)
    everywhere = Rows(accepted.spark, accepted.slices)
    assert not everywhere.few
    assert [part.sql for part in everywhere.ranges("event_time", 200)] == ranges
    again = Rows(half.spark, half.slices)
    assert (spans(everywhere), list(differences(requests.TABLE, again, everywhere))) == result
    assert spans(none) == {} and Rows(none.spark, none.slices).ranges("event_time", 200) == []


def test_a_table_of_many_rows_is_for_executors(
    accepted: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sizes, "FEW_BYTES", 1_000)
    assert not Rows(accepted.spark, accepted.slices).few
    elsewhere = lakehouse.of(Settings.of(home=tmp_path, catalog="main", checkpoint_location=str(tmp_path)))
    assert not Rows(accepted.spark, (Slice(elsewhere, requests.TABLE),)).few
