"""quality.reported over real tables: what was reported when, what changed it, and how seldom."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from statistics import mean

import pytest

from tests.operate.alerts.scene import NOON, TABLE, Line, Scene, every
from tidemark.contract.quality_tables import NOTES, REPORTED
from tidemark.contract.store import Commit
from tidemark.figures.notes import State
from tidemark.operate import notes
from tidemark.operate.note import FORGET, REBUILD, SETTINGS, Note
from tidemark.operate.reported import METRICS, Reports
from tidemark.settings import Settings
from tidemark.stream.swap import WRITER

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MIDNIGHT = NOON.replace(hour=0)
Row = tuple[str, float | None, str]


class Reporting(Scene):
    """A scene that reports."""

    def report(self, at: datetime, again: Reports | None = None) -> list[Row]:
        """Reports at a time, by a new process unless one is given. Returns metric, value and cause of the new rows."""
        before = self.store.read(REPORTED).num_rows
        reports = again or Reports(self.settings, self.store, TABLE)
        written = reports.report(self.moment(at=at))
        rows = self.store.read(REPORTED).to_pylist()
        assert len(rows) == before + written
        result = [(r["metric"], r["value"], r["cause"]) for r in rows if r["reported_at"] == at]
        return sorted(result, key=lambda row: row[0])

    def as_reported(self, day: datetime, at: datetime, site: str = "shop") -> dict[str, float | None]:
        rows = self.store.read(REPORTED).sort_by("reported_at").to_pylist()
        return {
            r["metric"]: r["value"]
            for r in rows
            if (r["day"], r["site"]) == (day, site) and r["reported_at"] <= at
        }


@pytest.fixture
def scene(home: Settings) -> Reporting:
    """Two sessions on the first day, of which one is a bounce."""
    created = Reporting.of(home)
    assert isinstance(created, Reporting)
    created.add(*every(1, 0, 3), Line(60, visitor="w"), Line(61, bot=True), Line(61, status=404))
    return created


def after(scene: Scene, day: datetime) -> None:
    """A line an hour after the day's end."""
    scene.add(Line((day + DAY + HOUR - NOON) / timedelta(minutes=1)))


def test_a_day_is_reported_an_hour_after_its_end(scene: Reporting) -> None:
    now = datetime.now(UTC)
    scene.add(Line((MIDNIGHT + DAY + 0.9 * HOUR - NOON) / timedelta(minutes=1)))
    assert scene.report(now) == []
    after(scene, MIDNIGHT)
    assert scene.report(now) == [
        ("bounce_rate", 0.5, "day over"), ("pageviews", 4.0, "day over"), ("requests", 6.0, "day over"),
        ("sessions", 2.0, "day over"), ("visitors", 2.0, "day over"),
    ]  # fmt: skip
    assert scene.report(now + HOUR) == []


def test_the_clock_ends_a_day_too_and_a_day_without_lines_is_reported(scene: Reporting) -> None:
    clock = (MIDNIGHT + 2 * DAY + HOUR - NOON) / timedelta(minutes=1)
    Reports(scene.settings, scene.store, TABLE).report(scene.moment(minutes=clock))
    assert scene.as_reported(MIDNIGHT + DAY, datetime.now(UTC)) == {}
    Reports(scene.settings, scene.store, TABLE).report(scene.moment(minutes=clock + 5))
    nothing = dict.fromkeys(METRICS, 0.0) | {"bounce_rate": None}
    assert scene.as_reported(MIDNIGHT + DAY, datetime.now(UTC)) == nothing
    Reports(scene.settings, scene.store, TABLE).report(scene.moment(minutes=clock + 1000 * 24 * 60))
    assert max(scene.store.read(REPORTED)["day"].to_pylist()) == MIDNIGHT + 6 * DAY


def test_a_late_line_is_reported_at_most_once_an_hour_with_what_it_changed(scene: Reporting) -> None:
    now = datetime.now(UTC)
    after(scene, MIDNIGHT)
    reports = Reports(scene.settings, scene.store, TABLE)
    scene.report(now, reports)
    scene.add(Line(62, bot=True))
    assert scene.report(now + HOUR / 2, reports) == []  # it waits
    assert scene.report(now + HOUR, reports) == [("requests", 7.0, "late lines")]
    # A new process finds what the old one left.
    scene.add(Line(63, bot=True))
    assert scene.report(now + 1.5 * HOUR) == []
    assert scene.report(now + 2.5 * HOUR) == [("requests", 8.0, "late lines")]
    assert [scene.as_reported(MIDNIGHT, now + n * HOUR)["requests"] for n in (0, 0.9, 1, 2.6)] == [6, 6, 7, 8]


def test_the_cause_is_what_happened_since_the_last_report(scene: Reporting) -> None:
    now = datetime.now(UTC)
    after(scene, MIDNIGHT)
    scene.report(now - 4 * HOUR)
    scene.add(*every(1, 100, 111, bot=True))
    assert scene.report(now) == [("requests", 17.0, "import")]
    [note] = scene.store.read(NOTES).to_pylist()
    assert (note["cause"], note["site"], note["time"]) == ("import", "shop", now)
    assert note["text"] == "Lines of 2026-11-20 to 2026-11-20 were imported"

    scene.add(Line(-24 * 60, bot=True), *every(1, -23 * 60, -23 * 60 + 12, bot=True), Line(64, bot=True))
    for number, cause in enumerate((REBUILD, SETTINGS, FORGET)):
        at = now + (1 + 2 * number) * HOUR
        applied = State.APPLIED if cause == SETTINGS else None
        happened = [
            Note(at - 0.5 * HOUR, cause=cause, about="tables all", state=applied),
            # What happened to a goal changes no reported figure.
            Note(at - 0.4 * HOUR, cause=SETTINGS, about="goal signup", state=State.REMOVED),
            Note(at - 0.3 * HOUR, cause=SETTINGS, about="sites", state=State.WAITING),
        ]
        notes.write(scene.settings, scene.store, happened)
        scene.add(Line(65, bot=True))
        assert [row[2] for row in scene.report(at) if row[1] == 19.0 + number] == [cause]


def test_days_whose_rows_are_deleted_stay_as_they_were_reported(scene: Reporting) -> None:
    now = datetime.now(UTC)
    days = [MIDNIGHT + n * DAY for n in range(3)]
    scene.add(*(Line(n * 24 * 60) for n in (1, 2)))
    after(scene, days[2])
    scene.report(now)
    before = [scene.as_reported(day, now) for day in days]
    ends = {"gold.traffic": days[1], "silver.sessions": days[2]}
    for name, end in ends.items():
        scene.store.newest(TABLE[name]).delete(f"{TABLE[name].time} < '{end.isoformat()}'")
    # A rebuild makes all figures anew.
    scene.store.append_arrow(
        TABLE["gold.traffic"], TABLE["gold.traffic"].arrow_schema.empty_table(), Commit(WRITER, 1)
    )
    notes.write(scene.settings, scene.store, [Note(now + HOUR / 2, cause=REBUILD, about="tables all")])
    assert Reports(scene.settings, scene.store, TABLE, ends.get).report(scene.moment(at=now + HOUR)) == 0
    assert [scene.as_reported(day, now + DAY) for day in days] == before


def test_notes_of_an_import_are_one_while_it_goes_on(home: Settings) -> None:
    store = Scene.of(home).store
    days = [NOON.replace(hour=0) - n * DAY for n in range(6)]
    now = datetime.now(UTC)
    for result in (days[2:3], days[1:2], days[3:5]):
        notes.write(home, store, [notes.archive(notes.listed(store), "shop", result, now)])
    [note] = notes.listed(store)
    assert note.text == f"Lines of {days[4]:%Y-%m-%d} to {days[1]:%Y-%m-%d} were imported"
    later = notes.archive(notes.listed(store), "shop", days[:1], now + 2 * HOUR)
    assert later.time == now + 2 * HOUR and later.key != note.key


def test_reported_figures_equal_a_recount_whatever_the_order(home: Settings) -> None:
    chance = random.Random(4)
    lines = [
        Line(chance.random() * 3 * 24 * 60, chance.choice("ab"), chance.choice([200, 404]), chance.choice("uvwx"),
             chance.random() < 0.2)
        for _ in range(400)
    ]  # fmt: skip
    scene = Reporting.of(home)
    assert isinstance(scene, Reporting)
    now = datetime.now(UTC)
    for number in range(4):
        scene.add(*lines[number * 100 : number * 100 + 100])
        scene.report(now + number * HOUR)
    scene.add(Line(6 * 24 * 60, "a"), Line(6 * 24 * 60, "b"))
    scene.report(now + 5 * HOUR)
    for site in "ab":
        for day in (MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT + 2 * DAY):
            own = [line for line in lines if line.site == site]
            today = [line for line in own if day <= line.time < day + DAY]
            sessions = [views for views in sessions_of(own) if day <= views[0] < day + DAY]
            assert scene.as_reported(day, now + DAY, site) == {
                "requests": len(today),
                "pageviews": sum(line.views for line in today),
                "visitors": len({line.visitor for line in today if not line.bot}),
                "sessions": len(sessions),
                "bounce_rate": pytest.approx(mean(len(views) == 1 for views in sessions)),
            }


def sessions_of(lines: list[Line]) -> list[list[datetime]]:
    """The times of the pageviews of each session."""
    result: list[list[datetime]] = []
    for visitor in {line.visitor for line in lines}:
        views = sorted(each.time for each in lines if each.visitor == visitor and each.views)
        previous = None
        for view in views:
            if previous is None or view - previous >= timedelta(minutes=30):
                result.append([])
            result[-1].append(view)
            previous = view
    return result
