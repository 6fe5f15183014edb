"""The queries of funnels, retention and paths give in DuckDB what the figures say."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from deltalake import DeltaTable

from tests.app import lakehouse
from tidemark.figures import extents, funnels, paths, retention, walk_queries
from tidemark.figures.declared import Definition, Step
from tidemark.figures.periods import Every
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of

RANGE = (lakehouse.START + timedelta(hours=3), lakehouse.START + timedelta(hours=50))
SELECTIONS = [
    Selection(),
    Selection("a.example", *RANGE, filters=filters_of(["country!=ZZ", "path!=/a"])),
    Selection(None, *RANGE, filters=filters_of(["channel=email|direct"])),
]
STEPS = tuple(Step(pattern, pattern) for pattern in ("/*", "/a*", "*%_\\"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home")
    lakehouse.build(directory, lakehouse.requests(seed=3, visitors=200))
    return directory


def run(home: Path, text: str) -> pd.DataFrame:
    connection = duckdb.connect()
    for table in ("requests", "sessions", "session_steps"):
        path = home / "tables" / "silver" / table
        connection.register(table, DeltaTable(str(path)).to_pyarrow_table())
        text = text.replace(f"delta_scan('{path}')", table)
    return connection.execute(text).df()


@pytest.mark.parametrize("selection", SELECTIONS, ids=["all", "lines", "sessions"])
@pytest.mark.parametrize("visitor", [True, False], ids=["visitor", "session"])
def test_funnels(home: Path, selection: Selection, visitor: bool) -> None:
    definition = Definition(STEPS, visitor, timedelta(hours=2))
    wanted = funnels.funnel(Rows(DeltaReader(home)), selection, definition).table()
    result = run(home, walk_queries.funnel(selection, definition, str(home / "tables")))
    names = ["name", "count", "median_seconds"]
    pd.testing.assert_frame_equal(result[names], wanted[names], check_dtype=False)
    assert 0 < wanted["count"].iloc[-1] < wanted["count"].iloc[0]


@pytest.mark.parametrize("selection", SELECTIONS, ids=["all", "lines", "sessions"])
@pytest.mark.parametrize("visitor", [True, False], ids=["visitor", "session"])
def test_funnels_by_label_and_where_they_left(home: Path, selection: Selection, visitor: bool) -> None:
    definition, root, rows = (
        Definition(STEPS, visitor, timedelta(hours=2)),
        str(home / "tables"),
        Rows(DeltaReader(home)),
    )
    for label in funnels.LABELS:
        wanted = funnels.by(rows, selection, definition, funnels.funnel(rows, selection, definition), label)
        result = run(home, walk_queries.funnel_by(selection, definition, label, root))
        assert result.values.tolist() == wanted.values.tolist()
        assert len(result) > 1
    lost = run(home, walk_queries.lost(selection, definition, 5, root)).astype({"path": object})
    lost["path"] = lost["path"].where(lost["path"].notna(), None)
    for step, each in enumerate(funnels.with_lost(rows, selection, definition, 5)[1], 1):
        assert lost[lost["step"] == step][["path", "count"]].values.tolist() == each.values.tolist()
    assert set(lost["step"]) == {1, 2}


@pytest.mark.parametrize("selection", SELECTIONS[:2], ids=["all", "lines"])
@pytest.mark.parametrize("by", ["day", "week"])
def test_retention(home: Path, selection: Selection, by: Every) -> None:
    rows = Rows(DeltaReader(home))
    wanted = retention.retention(rows, selection, by, extents.of_site(extents.extents(rows), selection.site))
    result = run(home, walk_queries.retention(selection, by, str(home / "tables")))
    counts = {
        (c.date(), p.date()): n
        for c, p, n in result[["cohort", "period", "visitors"]].itertuples(index=False)
    }
    assert counts == {
        (cohort, wanted.periods[i + n]): count
        for i, cohort in enumerate(wanted.periods)
        for n, count in enumerate(wanted.returned(i))
        if count
    }
    assert counts


@pytest.mark.parametrize("selection", SELECTIONS, ids=["all", "lines", "sessions"])
@pytest.mark.parametrize(
    "page, backward, folded",
    [(None, False, False), ("/a", False, False), ("/a*", True, False), ("/a/*", False, True)],
)
def test_paths(home: Path, selection: Selection, page: str | None, backward: bool, folded: bool) -> None:
    how = {"backward": backward, "folded": folded}
    wanted = paths.paths(Rows(DeltaReader(home)), selection, page, **how)
    result = run(home, walk_queries.paths(selection, page, str(home / "tables"), **how))
    for level, sheet in enumerate(wanted.levels):
        shown = sheet[~sheet["path"].isin([paths.OTHER, paths.LEFT])]
        of_level = result[result["level"] == level]
        assert of_level[["path", "count"]].values.tolist() == shown.values.tolist()
        entered = sheet.loc[sheet["path"] != paths.LEFT, "count"].sum()
        assert set(of_level["of_level"]) <= {entered}
    assert len(result) > 5
