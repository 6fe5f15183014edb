"""What a changed goal does to its conversions is noted: before the flows start, and when all history is counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from gold import goals as counted
from silver import session_goals as reached
from tidemark.contract.store import Commit
from tidemark.contract.table import Change
from tidemark.figures.declared import Goal
from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.goal_notes import announce, complete
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.stream import schema_check, table_state

HOUR = datetime(2026, 11, 24, 9, tzinfo=UTC)
SIGNUP, OTHER = Goal("/welcome"), Goal("/hello*", site="shop")


class Scenario:
    """A home whose pipeline starts with goals, and counts conversions."""

    def __init__(self, directory: Path) -> None:
        self.settings = Settings.of(home=directory / "home")
        self.lakehouse = lakehouse_of(self.settings)
        self.store = DeltaRsStore(self.lakehouse)
        self.number = 0
        # There was a pipeline before.
        table_state.record_states(self.lakehouse, {"gold.pages": table_state.TableState({"key": "path"})})

    def start(self, **goals: Goal) -> None:
        self.settings = replace(self.settings, meaning=replace(self.settings.meaning, goals=goals))
        complete(self.pipeline)
        announce(self.pipeline)
        schema_check.note(self.pipeline.only([reached.TABLE]))

    def fill(self, **conversions: int) -> None:
        """All history is counted."""
        rows = [
            {"site": "shop", "window_start": HOUR, "goal": name, "channel": channel, "conversions": n}
            for name, number in conversions.items()
            for channel, n in (("direct", 1), ("email", number - 1))
        ]
        self.store.ensure(counted.TABLE)
        self.number += 1
        change = Change(pa.Table.from_pylist(rows, counted.TABLE.arrow_schema))
        self.store.upsert(counted.TABLE, change, Commit("test", self.number))
        table_state.record_states(self.lakehouse, schema_check.rebuilt(self.settings, [reached.TABLE]))
        complete(self.pipeline)

    @property
    def pipeline(self) -> Home:
        return Home.of(self.settings, [reached.TABLE, counted.TABLE])

    @property
    def noted(self) -> list[tuple[str, str]]:
        return [(note.site, note.text) for note in notes.listed(self.store) if note.cause == "settings"]


@pytest.fixture
def home(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


def test_conversions_before_and_after(home: Scenario) -> None:
    home.start()
    home.start(signup=SIGNUP)
    assert home.noted == [("", "Goal signup is new: … conversions")]
    home.fill(signup=1120)
    home.start(signup=OTHER)
    assert home.noted[1:] == [("shop", "Goal signup: 1,120 → … conversions")]
    home.fill(signup=1134)
    home.start(signup=OTHER)
    home.start()
    assert home.noted == [
        ("", "Goal signup is new: 1,120 conversions"),
        ("shop", "Goal signup: 1,120 → 1,134 conversions"),
        ("", "Goal signup was removed; it had 1,134 conversions"),
    ]


def test_an_interrupted_start_notes_nothing_twice(home: Scenario) -> None:
    home.start(signup=SIGNUP, other=OTHER)
    home.fill(signup=5, other=7)
    before = len(home.noted)
    changed = replace(home.settings.meaning, goals={"signup": OTHER, "other": SIGNUP})
    for _ in range(2):
        announce(home.pipeline.with_settings(replace(home.settings, meaning=changed)))
    assert [text for _, text in home.noted][before:] == [
        "Goal signup: 5 → … conversions", "Goal other: 7 → … conversions",
    ]  # fmt: skip


def test_an_earlier_definition_is_counted_again(home: Scenario) -> None:
    """Lines between were not matched by it."""
    home.start(signup=SIGNUP)
    home.fill(signup=5)
    home.start(signup=OTHER)
    home.fill(signup=6)
    home.start(signup=SIGNUP)
    assert table_state.incomplete(home.lakehouse) == ["silver.session_goals"]
    home.fill(signup=7)
    assert home.noted[-1] == ("", "Goal signup: 6 → 7 conversions")
