"""The progress of imported objects: a topic of its own, and on disk, because there may be many of them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, MutableMapping

from tidemark.importing.identity import Entry
from tidemark.importing.progress import Progress
from tidemark.settings.sections import KafkaSettings


def open_object_progress(settings: KafkaSettings) -> Progress:
    """The progress of the objects that were imported into the settings' topic. Raises KafkaError."""
    return Progress(settings, f"{settings.topic}-objects", DiskEntries())


def id_of(site: str, url: str) -> str:
    """The id of the entry of one object of one site, whatever its version."""
    return hashlib.sha256(f"{site}\0{url}".encode()).hexdigest()[:32]


class DiskEntries(MutableMapping[str, Entry]):
    """Entries by id in a temporary file without a name, of which little is in memory."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE entries (id TEXT PRIMARY KEY, entry BLOB) WITHOUT ROWID")

    def __getitem__(self, key: str) -> Entry:
        row = self._database.execute("SELECT entry FROM entries WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return Entry.from_json(row[0])

    def __setitem__(self, key: str, entry: Entry) -> None:
        self._database.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", (key, entry.to_json()))

    def __delitem__(self, key: str) -> None:
        if not self._database.execute("DELETE FROM entries WHERE id = ?", (key,)).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._database.execute("SELECT id FROM entries"))

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM entries").fetchone()[0]
        return count
