"""The same query for each engine, and a figure's SQL as it runs in DuckDB."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields
from functools import partial
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from deltalake import DeltaTable

from app.dashboard import panels
from tests.app import lakehouse
from tidemark.figures import (
    conditions,
    definitions,
    errors,
    latency,
    overview,
    pages,
    quantiles,
    sessions,
    silver,
    sources,
)
from tidemark.figures.dialects import Databricks, DataFusion, DuckDB
from tidemark.figures.numbers import NUMBERS
from tidemark.figures.query import Where, count, distinct_values, query, time_bin
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.render import render
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of

# The figures whose queries panels show.
FIGURES: dict[str, definitions.Figure] = {
    f"{page}.{name}": each.figure
    for _, page, _ in pkgutil.iter_modules(panels.__path__)
    for name, each in vars(importlib.import_module(f"{panels.__name__}.{page}")).items()
    if getattr(each, "figure", None)
}
FILTERS = filters_of(["path~it's", "status^5", "host!=a", "source="])


def test_conditions_for_each_engine() -> None:
    q = query(
        silver.REQUESTS,
        {
            "bin": time_bin("event_time", 3600),
            "n": count(),
            "people": distinct_values("v", Where("bot", "=", False)),
        },
        conditions.passing(FILTERS),
        group_by=["bin"],
    )
    databricks = Databricks()
    hour = "timestamp_micros((unix_micros(t.`event_time`) - pmod(unix_micros(t.`event_time`), 3600000000)))"

    assert render(q, lambda table: table.replace("/", "_"), DataFusion()) == (
        """SELECT date_bin(INTERVAL '3600 seconds', t."event_time") AS "bin", COUNT(*) AS "n", """
        """COUNT(DISTINCT CASE WHEN t."bot" = FALSE THEN t."v" END) AS "people" FROM silver_requests AS t """
        """WHERE contains(t."path", 'it''s') AND starts_with(CAST(t."status" AS VARCHAR), '5') """
        """AND (t."host" NOT IN ('a') OR t."host" IS NULL) AND (t."source" IN ('') OR t."source" IS NULL) """
        """GROUP BY date_bin(INTERVAL '3600 seconds', t."event_time")"""
    )
    assert render(q, lambda table: "c.s.requests", databricks) == (
        f"SELECT {hour} AS `bin`, "
        "COUNT(*) AS `n`, COUNT(DISTINCT CASE WHEN t.`bot` = :p0 THEN t.`v` END) AS `people` FROM c.s.requests AS t "
        "WHERE contains(t.`path`, :p1) AND startswith(CAST(t.`status` AS STRING), :p2) "
        "AND (t.`host` NOT IN (:p3) OR t.`host` IS NULL) AND (t.`source` IN (:p4) OR t.`source` IS NULL) "
        f"GROUP BY {hour}"
    )
    assert databricks.parameters == {"p0": False, "p1": "it's", "p2": "5", "p3": "a", "p4": ""}


def test_sessions_of_a_page_are_a_semi_join() -> None:
    selection = Selection("s", filters=filters_of(["path=/a", "device=mobile"]))
    q = query(silver.SESSIONS, {"n": count()}, conditions.of_sessions(selection))

    assert q.tables() == ("silver/sessions", "silver/requests")
    assert render(q, lambda table: table.split("/")[1], DuckDB()) == (
        """SELECT COUNT(*) AS "n" FROM sessions AS t WHERE t."site" = 's' AND t."device" IN ('mobile') AND EXISTS """
        """(SELECT 1 FROM requests AS u WHERE u."site" = t."site" AND u."visitor_id" = t."visitor_id" """
        """AND u."event_time" >= t."start_time" AND u."event_time" <= t."end_time" AND u."pageview" = TRUE """
        """AND u."path" IN ('/a'))"""
    )


QUALITY = ("alerts", "alert_rules", "notes", "reported")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home")
    lakehouse.build(directory, lakehouse.requests(seed=3))
    for name in QUALITY:
        lakehouse.write(directory, f"quality.{name}", [])
    return directory


def run(home: Path, figure: definitions.Figure, selection: Selection) -> list[pd.DataFrame]:
    """The results of a figure's statements; without the extension of Delta, which comes over the network, its tables
    are views."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    text = definitions.sql(figure, selection, str(home / "tables"))
    tables = [("silver", name) for name in ("requests", "sessions", "visitor_days")]
    for layer, table in [*tables, *(("quality", name) for name in QUALITY)]:
        path = home / "tables" / layer / table
        connection.register(table, DeltaTable(str(path)).to_pyarrow_table())
        text = text.replace(f"delta_scan('{path}')", table)
    return [connection.execute(each).df() for each in text.split(";\n") if each.strip()]


SELECTION = Selection(
    "a.example", lakehouse.START, filters=filters_of(["country!=ZZ", "path~a|ü", "bot_kind="])
)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("selection", [Selection(), SELECTION], ids=["all", "some"])
def test_every_figure_has_a_query_that_duckdb_runs(
    home: Path, figure: definitions.Figure, selection: Selection
) -> None:
    assert all(len(frame.columns) for frame in run(home, figure, selection))


@pytest.mark.parametrize("selection", [Selection(), SELECTION], ids=["all", "some"])
def test_a_figures_query_gives_its_numbers(home: Path, selection: Selection) -> None:
    rows = Rows(DeltaReader(home))

    lines, sessions = run(home, overview.overview, selection)
    result = overview.overview(rows, selection)
    assert lines.iloc[0].tolist() == [result.requests, result.pageviews, result.visitors]
    assert sessions["sessions"].item() == result.sessions
    for figure in (pages.pages, errors.errors, sources.sources):
        (table,) = run(home, figure, selection)
        pd.testing.assert_frame_equal(table, figure(rows, selection), check_dtype=False)
    (counts,) = run(home, latency.counts, selection)
    assert quantiles.summary(
        counts.rename(columns={"latency_bucket": "bucket"}), quantiles.FINE
    ) == latency.latency(rows, selection)


@pytest.mark.parametrize("end", sessions.ENDS)
def test_where_sessions_begin_and_end_is_one_query(home: Path, end: str) -> None:
    rows = Rows(DeltaReader(home))

    (table,) = run(home, partial(sessions.by, column=end), Selection())
    pd.testing.assert_frame_equal(sessions.by(rows, Selection(), end), table, check_dtype=False)
    assert sessions.by(rows, Selection(), end, 2)[end].tolist() == table[end].head(2).tolist()
    q = query(silver.SESSIONS, {"a": "a", "b": "b", "n": count()}, group_by=["a", "b"], apart=True)
    assert render(q, lambda table: "s", Databricks()).endswith("GROUP BY GROUPING SETS ((t.`a`), (t.`b`))")


def test_every_number_of_a_report_is_defined() -> None:
    numbers = {f.name for kind in (overview.Overview, quantiles.Latency) for f in fields(kind)}
    assert numbers <= set(NUMBERS)
    assert all(text.endswith(".") and "\n" not in text for text in NUMBERS.values())
