"""The progress of imported objects: a topic of its own, and on disk, because there may be many of them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, MutableMapping

from tidemark.importing.identity import Entry
from tidemark.importing.progress import Progress
from tidemark.settings.sections import KafkaSettings

# Entries that are not on disk yet.
_MOST_RECENT = 1000


def open_object_progress(settings: KafkaSettings) -> Progress:
    """The progress of the objects that were imported into the settings' topic, once a sender is open: reading it before
    would wait for the open transaction of a killed import, which the sender ends. Raises KafkaError."""
    return Progress(settings, f"{settings.topic}-objects", DiskEntries(), read=False)


def id_of(site: str, url: str) -> str:
    """The id of the entry of one object of one site, whatever its version."""
    return hashlib.sha256(f"{site}\0{url}".encode()).hexdigest()[:32]


class DiskEntries(MutableMapping[str, Entry]):
    """Entries by id in a temporary file without a name, of which little is in memory."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE entries (id TEXT PRIMARY KEY, entry TEXT) WITHOUT ROWID")
        # One statement for all: after each, the threads that fetch objects run first.
        self._recent: dict[str, Entry] = {}

    def __getitem__(self, key: str) -> Entry:
        if key in self._recent:
            return self._recent[key]
        row = self._database.execute("SELECT entry FROM entries WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return Entry.from_json(row[0])

    def __setitem__(self, key: str, entry: Entry) -> None:
        self._recent[key] = entry
        if len(self._recent) >= _MOST_RECENT:
            self._store()

    def __delitem__(self, key: str) -> None:
        self._store()
        if not self._database.execute("DELETE FROM entries WHERE id = ?", (key,)).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        self._store()
        return (key for (key,) in self._database.execute("SELECT id FROM entries"))

    def __len__(self) -> int:
        self._store()
        count: int = self._database.execute("SELECT count(*) FROM entries").fetchone()[0]
        return count

    def _store(self) -> None:
        rows = json.dumps({key: vars(entry) for key, entry in self._recent.items()})
        self._database.execute("INSERT OR REPLACE INTO entries SELECT key, value FROM json_each(?)", (rows,))
        self._recent = {}
