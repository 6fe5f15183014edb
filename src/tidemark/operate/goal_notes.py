"""Notes about goals that are new, changed or removed: their conversions before, and after all history was counted."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.notes import Note
from tidemark.settings import Settings
from tidemark.stream.table_state import incomplete, recorded

# Stands for a number until it is known.
_OPEN = "…"
_TEXT = re.compile(rf"Goal (?P<name>.*?)(?: is new)?: (?:[\d,]+ → )?{_OPEN} conversions", re.DOTALL)
_STATE = "goal "


# The table of the sessions with their goals, and the table of the conversions that follows it.
_REACHED, _COUNTED = "silver.session_goals", "gold.goals"


def announce(home: Home) -> None:
    """Notes, before the flows start, how the goals differ from those of the last start. Raises TableError."""
    settings, store = home.settings, home.store
    state = recorded(home.lakehouse, _REACHED).identity
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
    counts = _conversions(home)
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


def complete(home: Home) -> None:
    """Puts the conversions into the notes, once all history is counted. Raises TableError."""
    if _REACHED in incomplete(home.lakehouse):
        return
    open_notes = [
        (row, match)
        for row in notes.listed(home.store)
        if row["cause"] == notes.SETTINGS and (match := _TEXT.fullmatch(row["text"]))
    ]
    if not open_notes:
        return
    counts = _conversions(home)
    notes.write(
        home.settings,
        home.store,
        [
            Note(
                row["time"],
                row["text"].replace(_OPEN, f"{counts.get(match['name'], 0):,}"),
                row["site"],
                notes.SETTINGS,
            )
            for row, match in open_notes
        ],
    )


def _conversions(home: Home) -> dict[str, int]:
    """All conversions by goal."""
    counted = home.graph[_COUNTED]
    if not home.store.exists(counted):
        return {}
    rows = home.store.read(counted, [], ["goal", "conversions"])
    sums = rows.group_by("goal").aggregate([("conversions", "sum")])
    goals = pc.cast(sums["goal"], "string").to_pylist()
    return dict(zip(goals, sums["conversions_sum"].to_pylist(), strict=True))


def _site(settings: Settings, name: str) -> str:
    goals = settings.meaning.goals
    return goals[name].site if name in goals else ""
