"""Notes about goals that are new, changed or removed: their conversions before, and after all history was counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from tidemark.figures.notes import About, State
from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.note import SETTINGS, Note, rendered
from tidemark.stream.table_state import incomplete, recorded

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
    now = datetime.now(UTC)
    new = [
        rendered(
            Note(
                now + timedelta(microseconds=number),  # notes of one cause and site have distinct times
                site=goals[name].site if name in goals else "",
                cause=SETTINGS,
                about=f"{About.GOAL} {name}",
                state=State.COUNTING if name in goals else State.REMOVED,
                was=str(counts.get(name, 0)) if name in had else None,
            )
        )
        for number, name in enumerate([*changed, *gone])
    ]
    # The start before may have been interrupted.
    known = {(note.about, note.was) for note in notes.listed(store) if note.state == State.COUNTING}
    wanted = [note for note in new if note.state == State.REMOVED or (note.about, note.was) not in known]
    notes.write(settings, store, wanted)


def complete(home: Home) -> None:
    """Puts the conversions into the notes, once all history is counted. Raises TableError."""
    if _REACHED in incomplete(home.lakehouse):
        return
    counting = [note for note in notes.listed(home.store) if note.state == State.COUNTING]
    if not counting:
        return
    counts = _conversions(home)
    completed = [
        rendered(replace(note, state=State.COUNTED, now=str(counts.get(note.name, 0)))) for note in counting
    ]
    notes.write(home.settings, home.store, completed)


def _conversions(home: Home) -> dict[str, int]:
    """All conversions by goal."""
    counted = home.graph[_COUNTED]
    if not home.store.exists(counted):
        return {}
    rows = home.store.read(counted, [], ["goal", "conversions"])
    sums = rows.group_by("goal").aggregate([("conversions", "sum")])
    goals = pc.cast(sums["goal"], "string").to_pylist()
    return dict(zip(goals, sums["conversions_sum"].to_pylist(), strict=True))
