"""Notes of a home that an earlier release made: their columns, also of work that the upgrade interrupted."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from gold import goals
from tests.fixtures.home import HOMES
from tidemark.contract.quality_tables import REPORTED
from tidemark.figures import reported
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.home import Home
from tidemark.operate import goal_notes, notes, site_settings
from tidemark.operate.note import Note
from tidemark.settings import Settings

KEPT = HOMES / "home-0.1-2026-11-26.tar.gz"
DAY = datetime(2026, 11, 20, tzinfo=UTC)
CHANGE = "sites.shop.hosts was unset, now shop.example, www.shop.example"
WHY = "sites.shop.timezone changed, too: `tidemark rebuild all` applies all of them"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A kept home whose table of notes has no columns for what they are about."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(
            tmp_path,
            [each for each in archive if each.name.startswith("tables/quality/notes")],
            filter="data",
        )
    home = Home.of(Settings.of(home=tmp_path), [goals.TABLE])
    assert "about" not in DeltaTable(str(home.settings.tables / "quality/notes")).schema().to_arrow().names
    return home


def wrote(home: Home, *sentences: tuple[str, str]) -> None:
    """The earlier release wrote notes of these causes and texts, a minute apart."""
    rows = [
        {"note": f"n{number}", "time": DAY + timedelta(minutes=number), "site": "", "text": text, "cause": cause,
         "updated_at": DAY}
        for number, (cause, text) in enumerate(sentences)
    ]  # fmt: skip
    target = DeltaTable(str(home.settings.tables / "quality/notes"))
    schema = pa.schema(target.schema().to_arrow())
    write_deltalake(target, pa.Table.from_pylist(rows, schema), mode="append")


@pytest.mark.parametrize(
    ("cause", "text", "about", "state", "was", "now"),
    [
        ("settings", "Goal sign up is new: … conversions", "goal sign up", "counting", None, None),
        ("settings", "Goal signup: 1,120 → … conversions", "goal signup", "counting", "1120", None),
        ("settings", "Goal signup: 1,120 → 1,134 conversions", None, None, None, None),
        ("settings", "Rebuilt: all; session_gap_seconds was 1800, now 600", "tables all", "applied", None, None),
        ("settings", f"Robots.txt of shop: 5 lines of 9; {CHANGE}", "sites", "applied", None, None),
        ("rules", f"{CHANGE}; Lines are read with bots 2, geo 1, before with bots 1", "rules", None, "bots 1",
         "bots 2, geo 1"),
        ("import", "Lines of 2026-11-19 to 2026-11-20 were imported", "lines", None, "2026-11-19", "2026-11-20"),
        ("import", "Lines of 2026-11-19 came after its salt was destroyed: visitors of that day are counted anew",
         "day 2026-11-19", None, None, None),
        ("forget", "A visitor was deleted", None, None, None, None),
        ("hand", "Goal signup: 1,120 → … conversions", None, None, None, None),
    ],
)  # fmt: skip
def test_sentences_have_columns(
    home: Home, cause: str, text: str, about: str | None, state: str | None, was: str | None, now: str | None
) -> None:
    wrote(home, (cause, text))
    note = Note(DAY, text, cause=cause, about=about, state=state, was=was, now=now, note="n0", updated_at=DAY)
    assert notes.listed(home.store) == [note]


def test_settings_of_sites_that_history_does_not_have(home: Home) -> None:
    wrote(home, ("settings", f"Own hosts of shop: not applied to history, because {WHY}; {CHANGE}"))
    [note] = notes.listed(home.store)
    assert note.settings == {"sites.shop.hosts": ("", "shop.example, www.shop.example")}
    assert not note.remakes and site_settings.reason(home.store) == WHY


def test_work_that_the_upgrade_interrupted_is_completed(home: Home) -> None:
    wrote(
        home,
        ("settings", "Goal signup: 1,120 → … conversions"),
        ("settings", f"Own hosts of shop: …; {CHANGE}"),
        ("hand", "Sale"),
    )
    assert site_settings.is_open(home.store)
    goal_notes.complete(home)
    site_settings.complete(home, [])
    goal, sale, hosts = notes.listed(home.store)
    assert (goal.note, goal.text, goal.now) == ("n0", "Goal signup: 1,120 → 0 conversions", "0")
    assert (sale.note, sale.text, sale.about) == ("n2", "Sale", None)
    assert hosts.text == f"Own hosts of shop: no line has another value; {CHANGE}" and hosts.remakes
    assert not site_settings.is_open(home.store)


def test_the_history_of_a_day_has_the_notes_that_changed_it(home: Home) -> None:
    """A dashboard reads the home before a pipeline of this release has run."""
    wrote(
        home,
        ("settings", "Rebuilt: all; session_gap_seconds was 1800, now 600"),
        ("settings", "Goal signup: 1,120 → 1,134 conversions"),
        ("settings", f"Own hosts of shop: …; {CHANGE}"),
    )
    reports = [
        {"site": "shop", "day": DAY, "metric": "sessions", "value": value, "reported_at": at, "cause": cause}
        for at, cause, value in (
            (DAY - timedelta(hours=1), "day over", 7.0),
            (DAY + timedelta(hours=1), "settings", 9.0),
        )
    ]
    home.store.ensure(REPORTED)
    home.store.append_arrow(REPORTED, pa.Table.from_pylist(reports, REPORTED.arrow_schema))
    history = reported.history(Rows(DeltaReader(home.settings.home)), "shop", DAY)
    assert history["note"].tolist() == ["", "Rebuilt: all; session_gap_seconds was 1800, now 600"]
