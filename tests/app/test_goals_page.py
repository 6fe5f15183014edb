"""The Goals page: conversions and rates with their changes, searches and downloads."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.dashboard.panels.goals import filters_of
from tests.app import lakehouse, tables
from tests.app.showing import show, table
from tidemark.figures import definitions, drill, goals
from tidemark.figures.declared import Goal
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
DECLARED = """\
[goals.signup]
path = "/welcome*"
[goals.files]
download = ["pdf"]
"""


def request(visitor: str, hours: float, path: str, **more: Any) -> dict[str, Any]:
    at = NOW - timedelta(hours=hours)
    return {
        "topic": "access-log", "partition": 0, "site": "default", "event_time": at, "ingested_at": at, "country": "DE",
        "visitor_id": visitor, "method": "GET", "path": path, "status": 200, "bytes": 1, "bot": False, "asset": False,
        "pageview": True, "channel": "direct", "device": "desktop", "format": "combined",
    } | more  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Today two of three sessions reach signup, one of them twice; yesterday one of one."""
    rows = [
        request("a", 1, "/"), request("a", 0.9, "/welcome"), request("a", 0.8, "/welcome/again"),
        request("b", 2, "/welcome", channel="email"), request("b", 1.9, "/plan.PDF"),
        request("c", 3, "/search", search_term="late <b>data</b>"),
        request("robot", 1, "/welcome", bot=True, pageview=False),
        request("d", 30, "/welcome"), request("d", 30, "/search", search_term="late <b>data</b>"),
        request("first", 80, "/"),
    ]  # fmt: skip
    for offset, row in enumerate(rows):
        row["offset"] = offset
    lakehouse.build(tmp_path, rows, NOW)
    sites = [{"site": "default", "first_event_time": NOW - timedelta(hours=80), "newest_event_time": NOW}]
    tables.write(tmp_path, "quality/sites", sites)
    (tmp_path / "tidemark.toml").write_text(DECLARED)
    return tmp_path


def test_goals_with_their_changes(home: Path) -> None:
    page = show("goals", home)
    shown = table(page, "goal", "what", "conversions", "change", "rate", "completions")
    assert shown.values.tolist() == [
        ["files", "download of pdf", 1, math.inf, pytest.approx(1 / 3), 1],
        ["signup", "/welcome*", 2, 1.0, pytest.approx(2 / 3), 3],
    ]
    assert table(page, "term", "searches", "change").values.tolist() == [["late <b>data</b>", 1, 0.0]]
    assert table(page, "path", "downloads").values.tolist() == [["/plan.PDF", 1]]
    assert table(page, "channel", "sessions").values.tolist() == [["Email", 1], ["Direct", 2]]
    page.selectbox(key="goal").set_value("signup").run()
    shown = table(page, "channel", "conversions", "sessions", "rate")
    assert shown.values.tolist() == [["Direct", 1, 2, 0.5], ["Email", 1, 1, 1.0]]
    assert not page.error and not page.warning


def test_filters_and_sites_apply(home: Path) -> None:
    page = show("goals", home, filters=("channel=email",))
    assert table(page, "goal", "conversions").values.tolist() == [["files", 1], ["signup", 1]]
    page = show("goals", home, site="other")
    assert table(page, "goal", "conversions").values.tolist() == [["files", 0], ["signup", 0]]


@pytest.mark.parametrize(
    "goal, count",
    [
        (Goal("/welcome*"), 4),
        (Goal("/welcome"), 3),
        (Goal("/search", status=200, method="GET"), 2),
        (Goal("/search", status=404), 0),
        (Goal(search=True), 2),
    ],
)
def test_the_filters_of_a_goal_keep_what_reaches_it(home: Path, goal: Goal, count: int) -> None:
    rows = Rows(DeltaReader(home))
    kept = drill.newest(rows, Selection().having(*filters_of(goal, None)), (PEOPLE,))
    reaching = drill.newest(rows, Selection(), goals.matching(goal))
    assert kept["offset"].tolist() == reaching["offset"].tolist()
    assert len(kept) == count


@pytest.mark.parametrize("goal", [Goal(download=("pdf",)), Goal("/a*b"), Goal("*"), Goal("/", site="shop")])
def test_a_goal_that_no_filter_is_has_none(goal: Goal) -> None:
    assert filters_of(goal, None) == ()


def test_without_goals_the_page_says_how_to_declare_one(home: Path) -> None:
    (home / "tidemark.toml").unlink()
    page = show("goals", home)
    assert "No goal is declared yet." in [text.value for text in page.text]
    assert "Declare a goal" in [button.label for button in page.button]
    assert len(table(page, "term")) == 1
    (home / "tidemark.toml").write_text("goals = 1")
    assert "goals must be tables" in show("goals", home).warning[0].value.replace("\\", "")


def test_the_query_of_the_goals_names_each_of_them() -> None:
    declared = {"signup": Goal("/welcome*"), "exact": Goal("/a", method="POST")}
    text = definitions.sql(lambda rows, chosen: goals.goals(rows, chosen, declared), Selection(), "/tables")
    assert text.count("SELECT") >= 4
    assert "starts_with(t.\"path\", '/welcome')" in text and "t.\"method\" = 'POST'" in text
