"""Keys of programs, which send one as `Authorization: Bearer tm_…`, and read only."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.access.database import Database, hashed
from tidemark.access.people import require_name, right_in
from tidemark.errors import InputError
from tidemark.figures.right import Right, Role

PREFIX = "tm_"


@dataclass(frozen=True)
class Key:
    """A key's name and right; `ends_at` None: never."""

    name: str
    right: Right
    ends_at: datetime | None


class Keys:
    """The keys of a home's database, which has their hashes only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, role: Role, sites: tuple[str, ...], seconds: float | None) -> str:
        """A new key, which ends after that many seconds. Raises InputError for a name that is taken or unusable."""
        require_name(name, "a key")
        key = PREFIX + secrets.token_urlsafe(32)
        now = time.time()
        ends = None if seconds is None else now + seconds
        taken = InputError(f"there is already a key {name!r}", "Revoke it first.")
        self._database.add("keys", name, hashed(key), role, json.dumps(sites), now, ends, taken=taken)
        return key

    def revoke(self, name: str) -> None:
        """Ends a key at once. Raises InputError if no key has this name."""
        with self._database.open() as db:
            removed = db.execute("DELETE FROM keys WHERE name = ?", (name,)).rowcount
        if not removed:
            raise InputError(f"there is no key {name!r}", "`tidemark access key list` lists all.")

    def all(self) -> list[Key]:
        return list(map(_key, self._database.rows("SELECT * FROM keys ORDER BY name")))

    def of(self, key: str) -> Key | None:
        """The key with this text, unless it has expired."""
        row = self._database.of_secret("keys", key)
        return _key(row) if row else None


def _key(row: sqlite3.Row) -> Key:
    return Key(row["name"], right_in(row), moment_of(row["ends_at"]))


def moment_of(seconds: float | None) -> datetime | None:
    """A time in the database (UTC)."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
