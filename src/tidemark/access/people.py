"""People who log in with a password."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tidemark.access.database import Database
from tidemark.errors import InputError, PlatformError
from tidemark.figures.right import ROLES, Right, Role

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MOST_CHARACTERS = 200
LEAST_PASSWORD = 8
MOST_PASSWORD = 1024


@dataclass(frozen=True)
class Person:
    """Somebody in the database."""

    name: str
    right: Right


class People:
    """The people of a home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, role: Role, sites: tuple[str, ...], password: str) -> None:
        """Adds somebody. Raises InputError for a name that is taken, and for an unusable name or password."""
        require_name(name, "a person")
        taken = InputError(f"there is already a person {name!r}", "Remove it first, or use another name.")
        row = (name, role, json.dumps(sites), self.hashed(password), time.time())
        self._database.add("people", *row, taken=taken)

    def remove(self, name: str) -> None:
        """Removes somebody, whose sessions end. Raises InputError if there is nobody of this name."""
        with self._database.open() as db:
            removed = db.execute("DELETE FROM people WHERE name = ?", (name,)).rowcount
            db.execute("DELETE FROM sessions WHERE name = ? AND how = 'password'", (name,))
        if not removed:
            raise InputError(f"there is nobody called {name!r}", "`tidemark access user list` lists all.")

    def all(self) -> list[Person]:
        rows = self._database.rows("SELECT * FROM people ORDER BY name")
        return [Person(row["name"], right_in(row)) for row in rows]

    def right_of(self, name: str) -> Right | None:
        """Somebody's right; None if there is nobody of this name."""
        rows = self._database.rows("SELECT * FROM people WHERE name = ?", name)
        return right_in(rows[0]) if rows else None

    def verify(self, name: str, password: str) -> bool:
        """Whether the password is that of the person. It takes as long where there is nobody of this name."""
        of_nobody = self._of_nobody  # which the first attempt makes, whatever its name
        rows = self._database.rows("SELECT password FROM people WHERE name = ?", name)
        same = self.same(rows[0]["password"] if rows else of_nobody, password)
        return same and bool(rows)

    def hashed(self, password: str) -> str:
        """The argon2id hash of a password. Raises InputError if it is too short or too long."""
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise InputError(
                f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters", "Choose another one."
            )
        return str(self._hasher.hash(password))

    def same(self, hash: str, password: str) -> bool:
        """Whether a hash is that of the password."""
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            return bool(self._hasher.verify(hash, password[: MOST_PASSWORD + 1]))
        except (VerificationError, InvalidHashError):
            return False

    @cached_property
    def _hasher(self) -> PasswordHasher:
        try:
            from argon2 import PasswordHasher
        except ModuleNotFoundError as error:
            raise PlatformError("argon2-cffi is not installed", "Install `tidemark[dashboard]`.") from error
        return PasswordHasher()

    @cached_property
    def _of_nobody(self) -> str:
        return str(self._hasher.hash("of nobody"))


def require_name(name: str, of: str) -> None:
    """Raises InputError for a name that cannot be used."""
    if not 0 < len(name) <= MOST_CHARACTERS or not name.isprintable() or name != name.strip():
        raise InputError(
            f"{name[:MOST_CHARACTERS]!r} is no name of {of}",
            f"Use 1 to {MOST_CHARACTERS} printable characters, without blanks at the ends.",
        )


def right_in(row: sqlite3.Row) -> Right:
    """The right in a row with `role` and `sites`."""
    return Right.of(next(role for role in ROLES if role == row["role"]), json.loads(row["sites"]))
