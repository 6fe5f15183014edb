"""Goals equal a recount of the same rows with pandas."""

from __future__ import annotations

import fnmatch
import re
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest

from app.dashboard.figures import goals
from app.dashboard.figures.query import query
from app.dashboard.figures.reader_delta import DeltaReader
from app.dashboard.figures.rows import Direct
from app.dashboard.figures.selection import Selection, filters_of
from tests.app import lakehouse
from tests.app.lakehouse import START

GAP = timedelta(minutes=30)
GOALS: dict[str, dict[str, Any]] = {
    "page": {"path": "/a"},
    "any": {"path": "/a*"},
    "within": {"path": "*%_\\*"},
    "exact case": {"path": "/A*"},
    "posted": {"path": "*", "method": "POST", "status": 200},
    "of one site": {"path": "/*", "site": "b.example"},
    "style": {"download": ["CSS", ".pdf"]},
    "search": {"search": True},
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Direct, pd.DataFrame, pd.DataFrame]:
    home = tmp_path_factory.mktemp("home")
    rows = lakehouse.requests(seed=4)
    for number, row in enumerate(rows):
        row["search_term"] = "shoes" if number % 7 == 0 else None
    lines = lakehouse.build(home, rows)
    direct = Direct(DeltaReader(home))
    names = ["site", "visitor_id", "country", "start_time", "end_time"]
    return direct, lines, direct(query("silver/sessions", names))


def matches(row: Any, goal: dict[str, Any]) -> bool:
    """The definition, line by line."""
    if row.bot or goal.get("site", row.site) != row.site:
        return False
    if goal.get("search"):
        return row.search_term is not None
    if "download" in goal:
        return row.path is not None and row.path.lower().endswith((".css", ".pdf"))
    if goal.get("method", row.method) != row.method or goal.get("status", row.status) != row.status:
        return False
    pattern = fnmatch.translate(goal["path"].replace("[", "[[]").replace("?", "[?]"))
    return row.path is not None and re.match(pattern, row.path) is not None


@pytest.mark.parametrize("site", [None, "a.example"])
@pytest.mark.parametrize("filters", [(), ("country=DE",)])
def test_goals(scene: Any, site: str | None, filters: tuple[str, ...]) -> None:
    rows, lines, sessions = scene
    start, end = START + timedelta(hours=7), START + timedelta(hours=60)

    found = goals.goals(rows, Selection(site, start, end, filters=filters_of(filters)), GOALS)

    def kept(table: pd.DataFrame, time: str) -> pd.DataFrame:
        fits = (table[time] >= start) & (table[time] < end)
        fits &= (table["site"] == site) if site else True
        return table[fits & (table["country"] == "DE")] if filters else table[fits]

    wanted = []
    for name, goal in sorted(GOALS.items()):
        if site and goal.get("site", site) != site:
            continue
        every = [row for row in lines.itertuples() if matches(row, goal)]
        reached = sum(
            any(
                m.visitor_id == s.visitor_id and s.start_time <= m.event_time < s.end_time + GAP
                for m in every
            )
            for s in kept(sessions, "start_time").itertuples()
        )
        inside = sum(matches(row, goal) for row in kept(lines, "event_time").itertuples())
        wanted.append((name, reached, inside))
    assert list(found.itertuples(index=False, name=None)) == wanted
    assert found["completions"].gt(0).sum() >= 5 and found["conversions"].gt(0).sum() >= 5
