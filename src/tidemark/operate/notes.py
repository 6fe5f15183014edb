"""The table of notes: what happened at a time, for charts. By hand, and about what changes figures or leaves a gap."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tidemark.contract.quality_tables import ACCOUNTS, NOTES
from tidemark.contract.store import Commit, Store, Where
from tidemark.contract.table import Change, Table
from tidemark.errors import SettingError
from tidemark.figures.earlier_notes import with_columns
from tidemark.figures.notes import MOST_CHARACTERS, About, State
from tidemark.operate.difference import Changed, Revalued
from tidemark.operate.note import GAP, IMPORT, REBUILD, RULES, SETTINGS, Note, changes, rendered
from tidemark.settings import Settings
from tidemark.stream.lock import appending

# A pipeline that stood still for less leaves no note.
LEAST_GAP = timedelta(minutes=5)
# An archive that still grew so recently keeps its note: an import takes a while.
_GROWING = timedelta(hours=1)
# Columns that a note about a rebuild names.
_COLUMNS_SHOWN = 5
_WRITER = "notes"

# By table, the settings that its history does not have yet (`schema_check.unapplied`).
Unapplied = Mapping[str, Mapping[str, tuple[str, str]]]


def write(settings: Settings, store: Store, notes: Sequence[Note], gone: Sequence[Note] = ()) -> None:
    """Adds notes, or replaces those with the same key, and removes those that are `gone`, in one commit. Raises
    TableError."""
    if notes or gone:
        store.ensure(NOTES)
        written = _rows([replace(note, note=note.key, updated_at=datetime.now(UTC)) for note in notes])
        # Only files whose range contains its time can have a removed note.
        removed = _rows(gone).select(["note", "time"])
        with appending(settings):
            commit = Commit(_WRITER, store.committed(NOTES, _WRITER) + 1)
            store.upsert(NOTES, Change(written, removed), commit)


def _rows(notes: Sequence[Note]) -> pa.Table:
    return pa.Table.from_pylist([asdict(note) for note in notes], NOTES.arrow_schema)


def record(settings: Settings, store: Store, cause: str, about: str) -> None:
    """Notes what has just happened to all sites. Raises TableError."""
    write(settings, store, [rendered(Note(datetime.now(UTC), cause=cause, about=about))])


def rebuilt(
    name: str, tables: Collection[str], before: Unapplied, after: Unapplied, changed: Sequence[Changed] = ()
) -> Note:
    """The note about a rebuild (`name`: as asked for) of these tables and all that are made of them. It has the cause
    SETTINGS if the rebuild applied changed settings to history: those of these tables, and those that `after` it are
    not among the unapplied ones any more. It says how many lines have other values by what `changed`."""
    applied = {
        setting: values
        for table, differing in before.items()
        for setting, values in differing.items()
        if table in tables or setting not in after.get(table, {})
    }
    return rendered(
        Note(
            datetime.now(UTC),
            cause=SETTINGS if applied else REBUILD,
            about=f"{About.TABLES} {name}",
            state=State.APPLIED if applied else None,
            details=lines_changed(changed),
        ),
        applied,
    )


def lines_changed(changed: Sequence[Changed]) -> str | None:
    """How many lines have other values, as text; None for none."""
    return "; ".join([str(each) for each in changed if isinstance(each, Revalued)][:_COLUMNS_SHOWN]) or None


def remove(settings: Settings, store: Store, key: str) -> None:
    """Removes a note. Raises SettingError if there is none with this key, TableError."""
    gone = [note for note in listed(store) if note.key == key]
    if not gone:
        raise SettingError(f"there is no note {key}", "`tidemark note --list` shows the notes.")
    write(settings, store, [], gone)


def listed(store: Store) -> list[Note]:
    """The notes in the order of time. Raises TableError."""
    rows = store.read(NOTES).to_pylist() if store.exists(NOTES) else []
    return sorted((Note(**with_columns(row)) for row in rows), key=lambda note: (note.time, note.key))


def by_hand(text: str, at: datetime | None, site: str) -> Note:
    """A note of a person about a time (None: now). Raises SettingError for a text that cannot be shown."""
    text = " ".join(text.split())
    if not text.isprintable() or not 0 < len(text) <= MOST_CHARACTERS:
        raise SettingError(
            f"a note of {len(text)} characters, or with control characters", f"Use 1 to {MOST_CHARACTERS}."
        )
    return Note(at or datetime.now(UTC), text, site)


def gap(before: dict[str, Any], now: datetime) -> list[Note]:
    """The note about the time in which no pipeline ran. `before`: the live record of the last one."""
    if "looked_at" not in before:
        return []
    since = datetime.fromtimestamp(before["looked_at"], UTC)
    if now - since < LEAST_GAP:
        return []
    note = Note(since, cause=GAP, about=About.PIPELINE, was=since.isoformat(), now=now.isoformat())
    return [rendered(note)]


def archive(known: Sequence[Note], site: str, days: Sequence[datetime], now: datetime) -> Note:
    """The note about old lines of these days that have arrived. It replaces one about the same site that grew within
    the last hour. `known`: the notes that there are."""
    dates, time = [f"{day:%Y-%m-%d}" for day in days], now
    for note in known:
        about_site = (note.about, note.site) == (About.LINES, site)
        if about_site and note.updated_at and now - note.updated_at < _GROWING:
            time = note.time
            dates += filter(None, (note.was, note.now))
    return rendered(Note(time, site=site, cause=IMPORT, about=About.LINES, was=min(dates), now=max(dates)))


def rules_before(store: Store, requests: Table, time: datetime) -> str | None:
    """The `rules_version` of the last lines that were read before a time; None without lines. `requests` is
    silver.requests. Raises TableError."""
    rows = store.read(ACCOUNTS, [[("started_at", "<", time)]], ["flow", "started_at", "accepted"]).to_pylist()
    batches = [row["started_at"] for row in rows if row["flow"] == "requests" and row["accepted"]]
    if not batches:
        return None
    where: Where = [[("ingested_at", ">=", max(batches) - timedelta(seconds=1)), ("ingested_at", "<", time)]]
    versions = store.read(requests, where, ["rules_version", "ingested_at"]).sort_by("ingested_at")
    last: str | None = next(iter(versions["rules_version"].to_pylist()[-1:]), None)
    return last


def rules_changed(
    known: Sequence[Note], before: str | None, version: str, now: datetime, unapplied: Unapplied
) -> list[Note]:
    """The note about another `rules_version` than the rows had `before` (None: there are none), with the settings that
    history does not have."""
    last = [note for note in known if note.cause == RULES][-1:]
    noted = any(note.time == now or (note.was, note.now) == (before, version) for note in last)
    if before in (None, version) or noted:
        return []
    settings = {name: values for differing in unapplied.values() for name, values in differing.items()}
    details = "; ".join(changes(settings)) or None
    return [rendered(Note(now, cause=RULES, about=About.RULES, details=details, was=before, now=version))]
