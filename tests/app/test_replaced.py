"""Figures read files as they are, and again what a rebuild, a restore or `forget` replaces while its rows are read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler

from tests.app.recounted import Scene
from tidemark.figures import errors, funnels, paths, reader_delta
from tidemark.figures.declared import Definition, Step
from tidemark.figures.query import Query
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.scan import scan
from tidemark.figures.selection import Selection, filters_of

STEPS = (Step("first", "/*"), Step("second", "/a*"))
BY_VISITOR, BY_SESSION = (Definition(STEPS, visitor, timedelta(hours=2)) for visitor in (True, False))


def by_label(definition: Definition) -> Callable[[Rows], Any]:
    def split(rows: Rows) -> pd.DataFrame:
        counted = funnels.funnel(rows, Selection(), definition)
        return funnels.by(rows, Selection(), definition, counted, "channel")

    return split


FIGURES: dict[str, Callable[[Rows], Any]] = {
    "united visitors": lambda rows: errors.errors(rows, Selection()),
    "paths": lambda rows: paths.paths(rows, Selection()),
    "paths of filtered sessions": lambda rows: paths.paths(
        rows, Selection(filters=filters_of(["country=DE"]))
    ),
    "funnel of visitors": lambda rows: funnels.funnel(rows, Selection(), BY_VISITOR).table(),
    "funnel of sessions": lambda rows: funnels.funnel(rows, Selection(), BY_SESSION).table(),
    "funnel of visitors, split": by_label(BY_VISITOR),
    "funnel of sessions, split": by_label(BY_SESSION),
}


def replace(table: DeltaTable) -> None:
    """The same rows in other files; those of before are deleted."""
    there = DeltaTable(table.table_uri)
    write_deltalake(there, there.to_pyarrow_table(), mode="overwrite")
    assert there.vacuum(0, enforce_retention_duration=False, dry_run=False)


@pytest.mark.parametrize("figure", FIGURES)
def test_files_of_a_home_are_read_without_calling_python(
    figure: str, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a process that ends soon afterwards is aborted, now and then: "terminate called without an active
    exception"."""
    rows, _ = scene
    place = tmp_path / "josé home"
    shutil.copytree(Path(rows.reader.root).parent, place)
    opened = []
    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", lambda handler, path: opened.append(path))
    assert repr(FIGURES[figure](Rows(DeltaReader(place)))) == repr(FIGURES[figure](rows))
    assert not opened


@pytest.mark.parametrize("figure", FIGURES)
def test_a_table_that_is_replaced_while_its_rows_are_read_is_read_again(
    figure: str, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = scene
    expected = FIGURES[figure](rows)
    shutil.copytree(Path(rows.reader.root).parent, tmp_path / "home")
    replaced = set()

    def overtaken(table: DeltaTable, q: Query, coded: Sequence[str]) -> pa.RecordBatchReader:
        """Replaces a table once, after it was opened."""
        if q.table not in replaced:
            replaced.add(q.table)
            replace(table)
        return scan(table, q, coded)

    monkeypatch.setattr(reader_delta, "scan", overtaken)
    assert repr(FIGURES[figure](Rows(DeltaReader(tmp_path / "home")))) == repr(expected)
    assert replaced
