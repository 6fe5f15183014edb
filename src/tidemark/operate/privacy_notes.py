"""Notes about changes of the privacy mode, and about old days whose visitors are counted again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.access.audit import by_the_machine
from tidemark.contract.quality_tables import ACCESS
from tidemark.figures.notes import About
from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.note import IMPORT, SETTINGS, Note, changes, rendered
from tidemark.privacy.salts import Salts
from tidemark.settings.privacy import described
from tidemark.stream import applied
from tidemark.stream.table_state import TableState, all_recorded, record_states


def note_changes(home: Home) -> None:
    """Before the flows start or history is recomputed, notes changes of the privacy settings since the last time, and
    records them in quality.access. Raises TableError."""
    accepted = home.graph.accepted.name
    state = all_recorded(home.lakehouse).get(accepted)
    if state is None:
        return
    changed = applied.privacy_differences(home.settings, state)
    if changed:
        note = Note(datetime.now(UTC), cause=SETTINGS, about=About.PRIVACY)
        notes.write(home.settings, home.store, [rendered(note, changed)])
        home.store.ensure(ACCESS)
        home.store.append_arrow(ACCESS, by_the_machine("privacy changed", "; ".join(changes(changed))))
    record_states(home.lakehouse, {accepted: TableState(privacy=described(home.settings.privacy))})


def note_recounted_days(home: Home) -> None:
    """Notes days whose visitors are counted again, because lines came after the salt of the day was destroyed. Raises
    TableError."""
    days = Salts.of(home.settings).recounted_days()
    if not days:
        return
    known = {note.about for note in notes.listed(home.store)}
    new = [
        # Notes of one cause and site have distinct times.
        rendered(Note(at + timedelta(microseconds=number), cause=IMPORT, about=f"{About.DAY} {day}"))
        for number, (day, at) in enumerate(days.items())
    ]
    notes.write(home.settings, home.store, [note for note in new if note.about not in known])
