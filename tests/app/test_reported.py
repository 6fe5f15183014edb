"""Reported figures beside those of today, over reports that the pipeline's own function writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.app import lakehouse
from tests.app.lakehouse import DAYS, START
from tidemark.contract import registry
from tidemark.contract.quality_tables import NOTES, REPORTED
from tidemark.figures import reported
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.operate import notes
from tidemark.operate.moment import Moment, Span
from tidemark.operate.note import Note, rendered
from tidemark.operate.reported import Reports
from tidemark.settings import Settings
from tidemark.store import lakehouse as lakehouses
from tidemark.store.deltars import DeltaRsStore

FIRST = START + timedelta(days=DAYS, hours=2)
LATER = FIRST + timedelta(hours=5)
SITES = ("a.example", "b.example")


class Home:
    """A home whose pipeline reports when it is told to."""

    def __init__(self, home: Path, rows: list[dict[str, Any]]) -> None:
        self.settings = Settings.of(home=home)
        self.home, self.lines = home, rows
        self.store = DeltaRsStore(lakehouses.of(self.settings))
        lakehouse.build(home, rows)
        for table in (NOTES, REPORTED):
            self.store.ensure(table)

    @property
    def rows(self) -> Rows:
        return Rows(DeltaReader(self.home))

    def report(self, at: datetime) -> None:
        span = Span(START, START + timedelta(days=DAYS, hours=2), START + timedelta(days=DAYS, hours=2))
        tables = {table.name: table for table in registry.tables()}
        Reports(self.settings, self.store, tables).report(Moment(at, dict.fromkeys(SITES, span)))

    def add(self, *lines: dict[str, Any]) -> None:
        self.lines += lines
        for offset, line in enumerate(self.lines):
            line["offset"] = offset
        lakehouse.build(self.home, self.lines)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    created = Home(tmp_path, lakehouse.requests(seed=6))
    created.report(FIRST)
    return created


def late(home: Home, day: int, visitor: str) -> dict[str, Any]:
    """A pageview of a person on the site a.example."""
    line = next(r for r in home.lines if r["site"] == SITES[0] and r["pageview"])
    return {**line, "event_time": START + timedelta(days=day, hours=5, seconds=1), "visitor_id": visitor}


def test_what_was_reported_is_what_the_pages_show(home: Home) -> None:
    result = reported.changes(home.rows, Selection())
    assert len(result) == len(SITES) * DAYS * len(reported.METRICS)
    assert not reported.differs(result["reported"], result["now"]).any()
    assert set(result["causes"]) == {""} and result["changed_at"].isna().all()
    assert result["now"].sum() > 100 and set(result["reported_at"]) == {FIRST}


def test_a_change_has_its_cause_once_it_is_reported(home: Home) -> None:
    home.add(late(home, 1, "late"))
    chosen = Selection(SITES[0], START + timedelta(days=1, hours=7), START + timedelta(days=2))
    before = reported.changes(home.rows, chosen).set_index("metric")
    assert set(before["day"]) == {START + timedelta(days=1)}
    change = before["now"] - before["reported"]
    assert change[["requests", "pageviews", "visitors", "sessions"]].tolist() == [1, 1, 1, 1]
    assert set(before["causes"]) == {reported.WAITING}

    home.report(LATER)
    after = reported.changes(home.rows, chosen).set_index("metric")
    assert after["now"].equals(before["now"]) and after["reported"].equals(before["reported"])
    # All rows of the home have just been written, as by an import.
    assert set(after["causes"]) == {"import"} and set(after["changed_at"]) == {LATER}
    as_of = reported.changes(home.rows, chosen, LATER)
    assert not reported.differs(as_of["reported"], as_of["now"]).any() and set(as_of["causes"]) == {""}
    assert reported.changes(home.rows, chosen, FIRST - timedelta(seconds=1)).empty


def test_the_history_of_a_day_has_its_notes(home: Home) -> None:
    day = START + timedelta(days=1)
    wanted = reported.history(home.rows, SITES[0], day)["requests"].item()
    hour = FIRST + timedelta(hours=1)
    rebuilt = Note(hour, cause="settings", about="tables all", state="applied")
    goal = Note(hour + timedelta(minutes=1), cause="settings", about="goal signup", state="removed", was="5")
    notes.write(home.settings, home.store, [rendered(rebuilt), rendered(goal)])
    home.add(late(home, 1, "late"))
    home.report(LATER)
    home.add(late(home, 1, "later"))
    home.report(LATER + timedelta(hours=2))

    result = reported.history(home.rows, SITES[0], day)
    assert result["cause"].tolist() == ["day over", "settings", "import"]
    assert result["note"].tolist()[:2] == ["", "Rebuilt: all"]
    assert result["note"].iloc[2].startswith("Lines of ")
    assert result["requests"].tolist() == [wanted, wanted + 1, wanted + 2]
    assert result["reported_at"].tolist() == [FIRST, LATER, LATER + timedelta(hours=2)]
    causes = reported.changes(home.rows, Selection(SITES[0], day, day + timedelta(days=1)))["causes"]
    assert causes.iloc[0] == "settings, import"


def test_a_home_without_reports(tmp_path: Path) -> None:
    lakehouse.build(tmp_path, lakehouse.requests(visitors=2, bots=0))
    assert reported.changes(Rows(DeltaReader(tmp_path)), Selection(), datetime.now(UTC)).empty
