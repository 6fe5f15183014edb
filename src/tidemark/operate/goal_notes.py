"""Notes about goals that are new, changed or removed: their conversions before, and after all history was counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.operate import notes
from tidemark.operate.notes import Note
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import schema_check

# Stands for a number until it is known.
_OPEN = "…"
_TEXT = re.compile(rf"Goal (?P<name>.*?)(?: is new)?: (?:[\d,]+ → )?{_OPEN} conversions", re.DOTALL)
_STATE = "goal "


@dataclass(frozen=True)
class GoalTables:
    """The table of the sessions with their goals, and the table of the conversions that follows it."""

    reached: Table
    counted: Table


def announce(settings: Settings, house: Lakehouse, store: Store, tables: GoalTables) -> None:
    """Notes, before the flows start, how the goals differ from those of the last start. Raises TableError."""
    state = schema_check.recorded(house, tables.reached.name)
    if not state:
        return
    had: dict[str, set[str]] = {}
    for entry in state:
        if entry.startswith(_STATE):
            definition, name = entry.removeprefix(_STATE).split(" ", 1)
            had.setdefault(name, set()).add(definition)
    goals = settings.meaning.goals
    changed = [name for name, goal in goals.items() if goal.definition not in had.get(name, ())]
    gone = [name for name in had if name not in goals]
    if not changed and not gone:
        return
    counts = _conversions(store, tables.counted)
    texts = {
        name: f"Goal {name}: {counts.get(name, 0):,} → {_OPEN} conversions"
        if name in had
        else f"Goal {name} is new: {_OPEN} conversions"
        for name in changed
    }
    texts |= {name: f"Goal {name} was removed; it had {counts.get(name, 0):,} conversions" for name in gone}
    known = {row["text"] for row in notes.listed(store) if row["cause"] == notes.SETTINGS}
    now = datetime.now(UTC)
    notes.write(
        settings,
        store,
        [
            # Of one time there is one note.
            Note(now + timedelta(microseconds=number), text, _site(settings, name), notes.SETTINGS)
            for number, (name, text) in enumerate(texts.items())
            if _OPEN not in text or text not in known  # the start before was interrupted
        ],
    )


def complete(settings: Settings, house: Lakehouse, store: Store, tables: GoalTables) -> None:
    """Puts the conversions into the notes, once all history is counted. Raises TableError."""
    if tables.reached.name in schema_check.incomplete(house):
        return
    found = [
        (row, match)
        for row in notes.listed(store)
        if row["cause"] == notes.SETTINGS and (match := _TEXT.fullmatch(row["text"]))
    ]
    if not found:
        return
    counts = _conversions(store, tables.counted)
    notes.write(
        settings,
        store,
        [
            Note(
                row["time"],
                row["text"].replace(_OPEN, f"{counts.get(match['name'], 0):,}"),
                row["site"],
                notes.SETTINGS,
            )
            for row, match in found
        ],
    )


def _conversions(store: Store, counted: Table) -> dict[str, int]:
    """All conversions by goal."""
    if not store.exists(counted):
        return {}
    rows = store.read(counted, [], ["goal", "conversions"])
    sums = rows.group_by("goal").aggregate([("conversions", "sum")])
    goals = pc.cast(sums["goal"], "string").to_pylist()
    return dict(zip(goals, sums["conversions_sum"].to_pylist(), strict=True))


def _site(settings: Settings, name: str) -> str:
    goals = settings.meaning.goals
    return goals[name].site if name in goals else ""
