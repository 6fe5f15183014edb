"""`<home>/access.db`: people with passwords, sessions, keys and shares. It stores only hashes of secrets."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from tidemark.errors import InputError

NAME = "access.db"
_TABLES = """
CREATE TABLE IF NOT EXISTS people (
  name TEXT PRIMARY KEY, role TEXT NOT NULL, sites TEXT NOT NULL, password TEXT NOT NULL, made_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
  hash BLOB PRIMARY KEY, name TEXT NOT NULL, how TEXT NOT NULL, ends_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
  name TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, role TEXT NOT NULL, sites TEXT NOT NULL, made_at REAL NOT NULL,
  ends_at REAL);
CREATE TABLE IF NOT EXISTS shares (
  id TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, site TEXT NOT NULL, page TEXT NOT NULL, filters TEXT NOT NULL,
  password TEXT NOT NULL, embed INTEGER NOT NULL, embed_in TEXT NOT NULL, made_at REAL NOT NULL, ends_at REAL);
PRAGMA user_version = 1;
"""
_VERSION = 1
# A writer has the file for some milliseconds.
_LOCK_SECONDS = 10


class Database:
    """The file of a home. Each use opens it, so processes and threads may share it."""

    def __init__(self, home: Path) -> None:
        self.path = home / NAME

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is committed at the end unless an error ends it. Makes the file, for its owner only,
        if there is none. Raises InputError if it cannot be used."""
        try:
            # The file is made before SQLite would, because it is for its owner only from the first byte.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self.path, timeout=_LOCK_SECONDS)) as connection:
                connection.row_factory = sqlite3.Row
                if self._version(connection) < _VERSION:
                    connection.executescript(_TABLES)
                with connection:
                    yield connection
        except (OSError, sqlite3.DatabaseError) as error:
            raise self._unusable(error) from error

    def add(self, table: str, *values: Any, taken: InputError | None = None) -> None:
        """Adds a row. Raises `taken` if another row has its name."""
        try:
            with self.open() as db:
                db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        except InputError as error:
            if taken and isinstance(error.__cause__, sqlite3.IntegrityError):
                raise taken from error
            raise

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """The rows of a query, also of a home that cannot be written; none without a file. Raises InputError if the
        file cannot be used."""
        if not self.path.exists():
            return []
        try:
            # Also a reader rolls back what a killed writer has left. Where nobody can write, SQLite only reads.
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(address, timeout=_LOCK_SECONDS, uri=True)) as connection:
                connection.row_factory = sqlite3.Row
                if self._version(connection) < _VERSION:
                    return []
                return connection.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error

    def of_secret(self, table: str, secret: str) -> sqlite3.Row | None:
        """The row of a secret, unless it has ended."""
        rows = self.rows(
            f"SELECT * FROM {table} WHERE hash = ? AND (ends_at IS NULL OR ends_at > ?)",
            hashed(secret),
            time.time(),
        )
        return rows[0] if rows else None

    def _version(self, connection: sqlite3.Connection) -> int:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > _VERSION:
            raise InputError(f"{self.path} is of a newer version of Tidemark", "Update this one.")
        return version

    def _unusable(self, error: Exception) -> InputError:
        # The file itself is only wrong where the system and other processes are not.
        sound = isinstance(error, OSError | sqlite3.OperationalError)
        remedy = "See that nobody locks it, that it can be written, and that the disk has room."
        return InputError(
            f"{self.path} cannot be used: {error}", remedy if sound else "Correct or remove the file."
        )


def hashed(secret: str) -> bytes:
    """The hash of a secret. A secret has 256 random bits, so nobody can guess it."""
    return sha256(secret.encode()).digest()
