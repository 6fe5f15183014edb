"""Goals equal a recount of the same rows with pandas."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest

from tests.app import lakehouse
from tests.app.lakehouse import START
from tidemark.figures import goals, searches
from tidemark.figures.declared import goals_of
from tidemark.figures.extents import Extent
from tidemark.figures.query import query
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, filters_of
from tidemark.settings import Settings
from tidemark.settings.sections import MeaningSettings

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
DECLARED = goals_of(GOALS, "a file")
FILTERS = ("country=DE", "channel=direct|email", "entry_page=/a", "path^/a", "device=mobile")


# Goals that the pipeline knows, one of them by another definition.
KNOWN = {**GOALS, "any": {"path": "/b*"}}


@pytest.fixture(scope="module", params=["goals are new", "goals are known"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Rows, pd.DataFrame, pd.DataFrame]:
    home = tmp_path_factory.mktemp("home")
    rows = lakehouse.requests(seed=4)
    for number, row in enumerate(rows):
        row["search_term"] = "shoes" if number % 7 == 0 else None
    meaning = MeaningSettings(goals=goals_of(KNOWN, "") if request.param == "goals are known" else {})
    lines = lakehouse.build(home, rows, settings=replace(Settings.of(), meaning=meaning))
    direct = Rows(DeltaReader(home))
    names = ["site", "visitor_id", "country", "device", "channel", "start_time", "end_time"]
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


@pytest.mark.parametrize(
    "site, filters, minutes",
    [(None, (), 0), (None, (), 7), ("a.example", ("country=DE",), 0), ("a.example", ("country=DE",), 7)],
)
def test_goals(scene: Any, site: str | None, filters: tuple[str, ...], minutes: int) -> None:
    """Of whole hours, which gold has, and of others."""
    rows, lines, sessions = scene
    start, end = START + timedelta(hours=7, minutes=minutes), START + timedelta(hours=60)
    selection = Selection(site, start, end, filters=filters_of(filters))

    result = goals.goals(rows, selection, DECLARED)
    pd.testing.assert_frame_equal(goals.goals(rows, replace(selection, recount=True), DECLARED), result)

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
    assert list(result.itertuples(index=False, name=None)) == wanted
    assert result["completions"].gt(0).sum() >= 5 and result["conversions"].gt(0).sum() >= 5


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("bin_seconds", [3600, 60])
def test_filters_keep_the_same_sessions_in_every_table(scene: Any, filters: str, bin_seconds: int) -> None:
    rows, *_ = scene
    selection = Selection(
        None, START, START + timedelta(hours=60), filters=filters_of((filters, "device!=bot"))
    )
    if "device" in filters or "path" in filters:
        selection = replace(selection, filters=filters_of((filters,)))
    fast, slow = (
        goals.over_time(rows, each, DECLARED, bin_seconds)
        .groupby(["name", "channel", "bin"])["conversions"]
        .sum()
        for each in (selection, replace(selection, recount=True))
    )
    pd.testing.assert_series_equal(fast, slow)
    assert fast.sum() > 10


def test_rates_and_changes_are_of_the_goals_site(scene: Any) -> None:
    rows, _, sessions = scene
    middle, end = START + timedelta(hours=36), START + timedelta(hours=72)
    selection = Selection(None, middle, end, comparison="previous")
    extent = Extent(START, end)

    result = goals.changes(rows, selection, DECLARED, extent, end)

    before = goals.with_rates(rows, selection.shifted(START, middle), DECLARED).set_index("name")
    assert {n: f["conversions"].before for n, f in result.items()} == before["conversions"].to_dict()
    mine = sessions[(sessions["start_time"] >= middle) & (sessions["site"] == "b.example")]
    one = result["of one site"]
    assert one["rate"].now == pytest.approx(one["conversions"].now / len(mine))
    assert one["conversions"].now > 10


def test_searches_and_downloads(scene: Any) -> None:
    rows, lines, _ = scene
    people = lines[~lines["bot"]]
    searched = people[people["search_term"].notna()]
    whole, shorter = (
        Selection(None, START, START + timedelta(days=2)),
        Selection(None, START, START + timedelta(hours=31)),
    )
    for selection in (whole, shorter):
        mine = searched[searched["event_time"] < selection.end]
        result = searches.searches(rows, selection)
        assert result.values.tolist() == [["shoes", len(mine), mine["visitor_id"].nunique()]]
        assert searches.searches_only(rows, selection).to_dict() == {"shoes": len(mine)}
    late = Selection(None, START + timedelta(hours=31), START + timedelta(hours=71, minutes=5))
    mine = searched[(searched["event_time"] >= late.start) & (searched["event_time"] < late.end)]
    assert searches.searches_only(rows, late).to_dict() == {"shoes": len(mine)}
    styles = people[people["path"] == "/app.css"]
    result = searches.downloads(rows, Selection(), ("CSS",))
    assert result.values.tolist() == [["/app.css", len(styles), styles["visitor_id"].nunique()]]


def test_searches_of_two_days_and_more_are_of_whole_days() -> None:
    def hours(start: float, end: float | None) -> Selection:
        return Selection(None, START + timedelta(hours=start), end and START + timedelta(hours=end))

    assert searches.whole_days(hours(31, 79.5)) == hours(24, 96)
    assert searches.whole_days(hours(48, 96)) == hours(48, 96)
    assert searches.whole_days(hours(31, 78)) == hours(31, 78)
    assert searches.whole_days(hours(31, None)) == hours(24, None)
