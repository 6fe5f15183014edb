"""Sessions of people who have logged in. A browser has a random token; only its hash is kept."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Literal

from tidemark.access.database import Database, hashed

COOKIE = "tidemark_session"
HOURS = 12
How = Literal["password", "oidc", "share"]


@dataclass(frozen=True)
class Session:
    """Who has logged in, and how."""

    name: str
    how: str


class Sessions:
    """The sessions in a home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, name: str, how: How) -> str:
        """The token of a new session, which ends after HOURS."""
        token = secrets.token_urlsafe(32)
        now = time.time()
        with self._database.open() as db:
            db.execute("DELETE FROM sessions WHERE ends_at <= ?", (now,))
        self._database.add("sessions", hashed(token), name, how, now + HOURS * 3600)
        return token

    def of(self, token: str) -> Session | None:
        """The session of a token, unless it has ended."""
        if not token:
            return None
        row = self._database.of_secret("sessions", token)
        return Session(row["name"], row["how"]) if row else None

    def end(self, token: str) -> None:
        with self._database.open() as db:
            db.execute("DELETE FROM sessions WHERE hash = ?", (hashed(token),))
