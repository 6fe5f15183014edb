"""The salts of anonymous visitors: destroyed 48 hours after they were made, and what comes of it is said."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.operate.alerts.scene import Scene
from tests.privacy.lines import ANONYMOUS, bronze, validated
from tidemark.errors import PlatformError
from tidemark.local.directories import prepare_home
from tidemark.operate import notes, upkeep
from tidemark.operate.privacy_notes import note_recounted_days
from tidemark.operate.savepoints import restore
from tidemark.pipeline import Pipeline
from tidemark.privacy import salts
from tidemark.service.savepoints import make_savepoint
from tidemark.settings import Settings

CREATED = datetime(2026, 11, 21, 12, tzinfo=UTC)
LINE = b'198.51.100.77 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "Firefox/140.0"'


@pytest.fixture(autouse=True)
def _prepared(home: Settings) -> None:
    prepare_home(home)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time that the salts see, as the only element."""
    now = [CREATED]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return now[0]

    monkeypatch.setattr(salts, "datetime", Clock)
    return now


def visitor(home: Path) -> object:
    return validated(bronze([LINE]), home, ANONYMOUS)[0]["visitor_id"]


def test_a_salt_is_destroyed_48_hours_after_it_was_made(home: Settings, clock: list[datetime]) -> None:
    file = home.home / "salts.json"
    first = visitor(home.home)
    [day] = json.loads(file.read_text())["salts"].values()
    assert file.stat().st_mode & 0o777 == 0o600

    clock[0] = CREATED + timedelta(hours=48, seconds=-1)
    upkeep.maintain(Pipeline.of(home))
    assert visitor(home.home) == first

    clock[0] = CREATED + timedelta(hours=48)
    upkeep.maintain(Pipeline.of(home))
    assert not [
        path for path in home.home.rglob("*") if path.is_file() and day["salt"].encode() in path.read_bytes()
    ]
    assert notes.listed(Pipeline.of(home).store) == []

    # A line that comes later counts its visitor anew, once, and a note says so.
    assert visitor(home.home) not in (None, first)
    for _ in range(2):
        upkeep.maintain(Pipeline.of(home))
    [note] = notes.listed(Pipeline.of(home).store)
    assert note.text.startswith("Lines of 2026-11-21 came after its salt was destroyed")
    assert note.time == clock[0]


def test_days_that_are_counted_again_in_one_batch_have_a_note_each(
    home: Settings, clock: list[datetime]
) -> None:
    days = [CREATED.date() - timedelta(days=1), CREATED.date()]
    of_home = salts.Salts.of(home)
    of_home.for_days(days)
    clock[0] = CREATED + timedelta(hours=48)
    of_home.expire()
    of_home.for_days(days)
    for _ in range(2):
        note_recounted_days(Pipeline.of(home))
    listed = notes.listed(Pipeline.of(home).store)
    assert [note.about for note in listed] == ["day 2026-11-20", "day 2026-11-21"]
    assert len({note.key for note in listed}) == 2


def test_salts_of_another_machine_are_not_used(home: Settings) -> None:
    shared = salts.Salts.of(home).marked()
    assert shared.for_days([CREATED.date()]) == salts.Salts.of(home).for_days([CREATED.date()])
    elsewhere = replace(shared, path=home.home / "run" / "salts.json")
    with pytest.raises(PlatformError, match="a file system that the driver and all executors share"):
        elsewhere.for_days([CREATED.date()])
    assert not elsewhere.path.exists()


def test_a_salt_is_not_used_after_its_time_even_without_upkeep(home: Settings, clock: list[datetime]) -> None:
    first = visitor(home.home)
    clock[0] = CREATED + timedelta(hours=48)
    assert visitor(home.home) != first


def test_a_fork_knows_the_visitors_of_its_days(home: Settings, clock: list[datetime], tmp_path: Path) -> None:
    Scene.of(home)
    first = visitor(home.home)
    before = CREATED.date() - timedelta(days=3)
    clock[0] = CREATED - timedelta(days=3)
    salts.Salts.of(home).for_days([before])
    clock[0] = CREATED
    home = home.changed(bootstrap_servers="localhost:1")
    make_savepoint(home, "now")
    fork = home.changed(home=tmp_path / "fork")
    restore(home, "now", fork)
    assert visitor(fork.home) == first
    copy = json.loads((fork.home / "salts.json").read_text())
    assert (list(copy["salts"]), copy["gone"]) == (["2026-11-21"], [before.isoformat()])
    assert (fork.home / "salts.json").stat().st_mode & 0o777 == 0o600
