"""Notes about changes of the privacy mode, and about old days whose visitors are counted again."""

from __future__ import annotations

from tidemark.access.audit import by_the_machine
from tidemark.contract.quality_tables import ACCESS
from tidemark.figures.notes import MOST_CHARACTERS
from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.notes import Note
from tidemark.privacy.salts import Salts
from tidemark.settings.privacy import described
from tidemark.stream import applied
from tidemark.stream.table_state import TableState, all_recorded, record_states

_CHANGED = "The privacy settings have changed: `tidemark rebuild all` applies stricter ones to history"


def note_changes(home: Home) -> None:
    """Before the flows start or history is recomputed, notes changes of the privacy settings since the last time, and
    records them in quality.access. Raises TableError."""
    accepted = home.graph.accepted.name
    state = all_recorded(home.lakehouse).get(accepted)
    if state is None:
        return
    changed = notes.changes(applied.privacy_differences(home.settings, state))
    if changed:
        text = "; ".join([_CHANGED, *changed])[:MOST_CHARACTERS]
        notes.record(home.settings, home.store, text, notes.SETTINGS)
        home.store.ensure(ACCESS)
        home.store.append_arrow(ACCESS, by_the_machine("privacy changed", "; ".join(changed)))
    record_states(home.lakehouse, {accepted: TableState(privacy=described(home.settings.privacy))})


def note_recounted_days(home: Home) -> None:
    """Notes days whose visitors are counted again, because lines came after the salt of the day was destroyed. Raises
    TableError."""
    days = Salts.of(home.settings).recounted_days()
    if not days:
        return
    known = {row["text"] for row in notes.listed(home.store)}
    new = [
        Note(
            at,
            f"Lines of {day} came after its salt was destroyed: visitors of that day are counted anew",
            cause=notes.IMPORT,
        )
        for day, at in days.items()
    ]
    notes.write(home.settings, home.store, [note for note in new if note.text not in known])
