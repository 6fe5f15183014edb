"""Notes: by hand through the command, and about Tidemark itself."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.operate.quality.rows import good, rows
from tidemark.cli import tidemark
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.errors import SettingError
from tidemark.operate import notes
from tidemark.operate.note import Note, rendered
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)


def run(home: Path, *arguments: str) -> str:
    done = CliRunner().invoke(tidemark, ["note", "--home", str(home), *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_notes_lists_and_removes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run(home, "--list") == "no notes yet\n"
    run(home, "Sale\nbegins", "--at", "2026-11-27", "--site", "shop")
    run(home, "Sale begins", "--at", "2026-11-27", "--site", "shop")  # the same note
    run(home, "New logo", "--at", "2026-11-26T10:30")
    first, second = run(home, "--list").splitlines()
    assert first.endswith("  2026-11-26 10:30  hand     New logo")
    assert second.endswith("  2026-11-27 00:00  hand     shop: Sale begins")
    assert run(home, "--list", "--site", "other").splitlines() == [first]
    run(home, "--remove", first.split()[0])
    [left] = json.loads(run(home, "--list", "--json"))
    assert (left["text"], left["site"], left["cause"]) == ("Sale begins", "shop", "hand")
    with pytest.raises(SettingError, match="there is no note"):
        CliRunner().invoke(
            tidemark,
            ["note", "--home", str(home), "--remove", "x"],
            standalone_mode=False,
            catch_exceptions=False,
        )


@pytest.mark.parametrize("text", ["", " ", "x" * 1001, "bell\a"])
def test_a_text_that_cannot_be_shown_is_no_note(text: str) -> None:
    with pytest.raises(SettingError):
        notes.by_hand(text, None, "")


def test_a_gap_is_noted_where_no_pipeline_ran_for_minutes() -> None:
    before = {"looked_at": (NOW - timedelta(minutes=90)).timestamp()}
    [note] = notes.gap(before, NOW)
    assert (note.time, note.cause) == (NOW - timedelta(minutes=90), "gap")
    assert note.text == "The pipeline did not run from 2026-11-24 07:30 to 2026-11-24 09:00 UTC"
    assert notes.gap({"looked_at": (NOW - timedelta(minutes=4)).timestamp()}, NOW) == []
    assert notes.gap({}, NOW) == []


def test_a_rebuild_is_noted_with_the_settings_that_it_applied() -> None:
    gap = {"session_gap_seconds": ("1800", "600")}
    hosts = {"sites.shop.hosts": ("", "shop.example")}
    before = {"silver.requests": hosts, "silver.rejected": hosts, "silver.sessions": gap}
    of_all = notes.rebuilt("all", ["silver.requests"], before, {})
    assert (of_all.cause, of_all.text) == (
        "settings",
        "Rebuilt: all; sites.shop.hosts was unset, now shop.example; session_gap_seconds was 1800, now 600",
    )
    # A part of a table leaves its setting unapplied elsewhere.
    part = notes.rebuilt("silver.sessions", ["silver.sessions"], before, before)
    assert (part.cause, part.text) == (
        "settings",
        "Rebuilt: silver.sessions; session_gap_seconds was 1800, now 600",
    )
    other = notes.rebuilt("gold.pages", ["gold.pages"], before, before)
    assert (other.cause, other.text) == ("rebuild", "Rebuilt: gold.pages")


@pytest.mark.parametrize(
    ("about", "columns", "text"),
    [
        ("visitor", {}, "A visitor was deleted"),
        ("site shop.example", {}, "The site shop.example was deleted"),
        ("goal sign up", {"state": "removed", "was": "1134"},
         "Goal sign up was removed; it had 1,134 conversions"),
        ("sites", {"state": "waiting"},
         "Own hosts and robots.txt of a.example, b: …; sites.a.example.hosts was unset, now c;"
         " sites.b.robots was unset, now d"),
    ],
)  # fmt: skip
def test_the_sentence_is_rendered_from_the_columns(about: str, columns: dict[str, str], text: str) -> None:
    settings = {"sites.a.example.hosts": ("", "c"), "sites.b.robots": ("", "d")}
    note = rendered(Note(NOW, about=about, **columns), settings if about == "sites" else None)  # type: ignore[arg-type]
    assert note.text == text


def test_a_note_keeps_the_values_that_its_sentence_shortens() -> None:
    hosts = ", ".join(f"{number}.shop.example" for number in range(99))
    note = rendered(Note(NOW, cause="settings", about="privacy"), {"sites.shop.hosts": ("", hosts)})
    assert note.settings == {"sites.shop.hosts": ("", hosts)}
    assert note.text.endswith(f"sites.shop.hosts was unset, now {hosts[:60]}…")


def test_other_rules_are_noted_once() -> None:
    [note] = notes.rules_changed([], "bots 1", "bots 2", NOW, {})
    assert note.text == "Lines are read with bots 2, before with bots 1"
    known = [replace(note, time=NOW - timedelta(days=1))]
    hosts = {"silver.requests": {"sites.shop.hosts": ("", "shop.example")}}
    assert notes.rules_changed(known, "bots 1", "bots 2", NOW, hosts) == []
    for before in ("bots 2", None):
        assert notes.rules_changed([], before, "bots 2", NOW, hosts) == []
    [note] = notes.rules_changed([], "bots 1", "bots 2", NOW, hosts)
    assert note.text == f"sites.shop.hosts was unset, now shop.example; {known[0].text}"


def test_the_rules_before_a_start_are_those_of_the_last_batch(home: Settings) -> None:
    store = DeltaRsStore(lakehouse.of(home))
    requests = next(table for table in TABLES if table.name == "silver.requests")
    for table in (requests, ACCOUNTS):
        store.ensure(table)
    assert notes.rules_before(store, requests, NOW) is None
    for number, (hours, version) in enumerate([(-2, "old"), (-1, "new"), (1, "newest")]):
        at = NOW + timedelta(hours=hours)
        account = good(ACCOUNTS, number, started_at=at, committed_at=at)
        store.append_arrow(ACCOUNTS, rows(ACCOUNTS, account))
        request = good(requests, number, ingested_at=at + timedelta(seconds=1), rules_version=version)
        store.append_arrow(requests, rows(requests, request))
    assert notes.rules_before(store, requests, NOW) == "new"
