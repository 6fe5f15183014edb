"""Sessions by a page: silver.session_steps tells which ones have it, and of longer ones silver.requests does."""

from __future__ import annotations

import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.app import lakehouse
from tidemark.figures import conditions, sessions, silver, walks
from tidemark.figures.dialects import Databricks
from tidemark.figures.query import count, query
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.render import render
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection


def visit(number: int, paths: list[str], seconds: int = 10) -> list[dict[str, Any]]:
    """A session of one person that views these pages, one after the other."""
    chance = random.Random(number)
    who = lakehouse._visitor(chance, number, None) | {"site": "a.example"}
    at = lakehouse.START + timedelta(hours=number)
    items = []
    for place, path in enumerate(paths):
        row = lakehouse._request(chance, who, at + timedelta(seconds=seconds * place))
        items.append(row | {"path": path, "method": "GET", "status": 200, "asset": False, "pageview": True})
    return items


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    home: Path = tmp_path_factory.mktemp("home")
    many = ["/a"] * 240
    items = [
        *visit(1, [*many, "/late", *["/a"] * 9]),
        *visit(2, [*many, *["/a"] * 9]),
        *visit(3, ["/a", "/late"]),
        *visit(4, ["/a", "/lately"]),
        *visit(5, ["/late", *many]),
    ]
    for offset, row in enumerate(items):
        row |= {"topic": "access-log", "partition": 0, "offset": offset}
    lakehouse.build(home, items)
    return Rows(DeltaReader(home))


@pytest.mark.parametrize(
    "filters, number",
    [
        ("path=/late", 3),
        ("path!=/a", 4),
        ("path^/late", 4),
        ("path~ately", 1),
        ("path=/nowhere", 0),
        ("path=/late|/a", 5),
    ],
)
def test_sessions_with_a_page_beyond_their_steps_are_found(rows: Rows, filters: str, number: int) -> None:
    selection = Selection(filters=(Filter.parse(filters),))
    quick, general = conditions.of_sessions(selection, rows), conditions.of_sessions(selection)
    assert quick != general
    for where in (quick, general):
        assert rows(query(silver.SESSIONS, {"n": count()}, where))["n"].iloc[0] == number
    assert sessions.summary(rows, selection).sessions == number


def test_other_fields_are_answered_by_lines(rows: Rows) -> None:
    both = Selection(filters=(Filter.parse("path=/late"), Filter.parse("status=200")))
    assert conditions.of_sessions(both, rows) == conditions.of_sessions(both)


def test_a_table_that_lacks_sessions_is_not_asked(rows: Rows, tmp_path: Path) -> None:
    """As while it is filled with history."""
    home = tmp_path / "home"
    shutil.copytree(Path(rows.reader.root).parent, home)
    table = DeltaTable(home / "tables" / silver.STEPS)
    one = table.to_pyarrow_table(columns=["session_id"])["session_id"][0].as_py()
    table.delete(f"session_id = '{one}'")
    selection = Selection(filters=(Filter.parse("path=/late"),))
    assert conditions.of_sessions(selection, Rows(DeltaReader(home))) == conditions.of_sessions(selection)


def test_the_semi_join_in_another_dialect(rows: Rows) -> None:
    selection = Selection(filters=(Filter.parse("path=/late"),), end=lakehouse.START + timedelta(hours=5))
    where = conditions.of_sessions(selection, rows)
    text = render(query(silver.SESSIONS, {"n": count()}, where), lambda table: table, Databricks())
    assert "explode(u.`steps`) AS `element`" in text
    assert "u.`element`['path'] IN (:" in text


def walked(rows: Rows, *wanted: Any) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """The pageviews of each visitor of a site, in order."""
    result = walks.of_visitors(rows, *wanted)
    assert result.owners is not None
    owners = [(each["site"], each["visitor_id"]) for each in result.owners.to_pylist()]
    views: dict[tuple[str, str], list[tuple[int, str]]] = {owner: [] for owner in owners}
    for walk, time, path in zip(result.walk, result.time, result.path, strict=True):
        views[owners[walk]].append((int(time), result.paths[path]))
    return views


@pytest.mark.parametrize("wanted", [((), ""), (("/a",), ""), (("/late*", "/b*"), ""), ((), "/late")])
@pytest.mark.parametrize("hours", [(None, None), (1.2, None), (None, 5.1), (1.2, 1.5), (9, None)])
def test_visitors_walk_the_same_by_steps_and_by_lines(
    rows: Rows, wanted: tuple[tuple[str, ...], str], hours: tuple[float | None, float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    start, end = (None if h is None else lakehouse.START + timedelta(hours=h) for h in hours)
    selection = Selection(start=start, end=end)
    by_steps = walked(rows, selection, *wanted)
    assert by_steps or hours != (None, None)
    monkeypatch.setattr(walks, "_by_steps", lambda *arguments: None)
    assert walked(rows, selection, *wanted) == by_steps
