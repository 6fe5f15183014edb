"""Shares: a page of a site with filters, readable by anyone with its address."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.access.database import Database, hashed
from tidemark.access.keys import moment_of
from tidemark.errors import InputError
from tidemark.figures.selection import Filter

# Pages that show figures of sites only.
PAGES = (
    "overview", "live", "sources", "pages", "performance", "bots", "errors", "countries", "networks", "sessions",
    "goals", "funnels", "retention", "paths", "alerts", "as-reported",
)  # fmt: skip
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?")


@dataclass(frozen=True)
class Share:
    """The content of a share. `password` is a hash, empty for none; `embed`: it may stand in a frame, of the origins
    `embed_in`, or of any if there are none; `ends_at` None: never."""

    id: str
    site: str
    page: str
    filters: tuple[Filter, ...] = ()
    password: str = ""
    embed: bool = False
    embed_in: tuple[str, ...] = ()
    ends_at: datetime | None = None

    @classmethod
    def of(
        cls,
        site: str,
        page: str,
        filters: Sequence[str],
        password: str = "",
        *,
        embed: bool = False,
        embed_in: Sequence[str] = (),
    ) -> Share:
        """A share as people ask for it; `password` is a hash. `embed_in` implies `embed`. Raises InputError for an
        origin and SelectionError for a filter that cannot be used."""
        for origin in embed_in:
            if not _ORIGIN.fullmatch(origin):
                raise InputError(
                    f"{origin!r} is no origin to embed in", "Write https://blog.example, without a path."
                )
        if not site or page not in PAGES:
            raise InputError(
                f"there is no page {page!r} of a site {site!r} to share", f"Pages: {', '.join(PAGES)}."
            )
        # One by one: `filters_of` would make one of two filters of a field, which shows more than each.
        conditions = tuple(dict.fromkeys(map(Filter.parse, filters)))
        return cls("", site, page, conditions, password, embed or bool(embed_in), tuple(embed_in))

    @property
    def about(self) -> str:
        """Its content in one line."""
        parts = [f"{self.page} of {self.site}", *map(str, self.filters)]
        parts += ["password"] * bool(self.password)
        return ", ".join(
            [*parts, "embed in " + (" ".join(self.embed_in) or "any page")][: len(parts) + self.embed]
        )

    @property
    def over_https_only(self) -> str:
        """That the password needs https, for whoever makes the share; empty where it does not."""
        if not (self.password and self.embed):
            return ""
        return "In a frame of another site, a browser keeps the password only if this server is reached by https."

    @property
    def ancestors(self) -> str:
        """Who may frame it, as in the policy `frame-ancestors`."""
        return " ".join(self.embed_in) or "*" if self.embed else "'none'"


class Shares:
    """The shares of a home's database, which has only hashes of their tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, share: Share, seconds: float | None) -> str:
        """The token of a new share, which ends after that many seconds. The share's own id and end do not matter."""
        token = secrets.token_urlsafe(32)
        now = time.time()
        self._database.add(
            "shares",
            secrets.token_hex(4),
            hashed(token),
            share.site,
            share.page,
            json.dumps([str(each) for each in share.filters]),
            share.password,
            share.embed,
            json.dumps(share.embed_in),
            now,
            None if seconds is None else now + seconds,
        )
        return token

    def revoke(self, given: str) -> str:
        """Ends a share at once, by its id or its token, and returns the id. Raises InputError if there is none."""
        with self._database.open() as db:
            row = db.execute(
                "SELECT id FROM shares WHERE id = ? OR hash = ?", (given, hashed(given))
            ).fetchone()
            if row:
                db.execute("DELETE FROM shares WHERE id = ?", (row["id"],))
                db.execute("DELETE FROM sessions WHERE name = ? AND how = 'share'", (row["id"],))
        if not row:
            raise InputError("there is no such share", "`tidemark access share list` lists all.")
        return str(row["id"])

    def all(self) -> list[Share]:
        return list(map(_share, self._database.rows("SELECT * FROM shares ORDER BY made_at")))

    def of(self, token: str) -> Share | None:
        """The share of a token, unless it has expired."""
        row = self._database.of_secret("shares", token)
        return _share(row) if row else None


def _share(row: sqlite3.Row) -> Share:
    return Share(
        row["id"],
        row["site"],
        row["page"],
        tuple(map(Filter.parse, json.loads(row["filters"]))),
        row["password"],
        bool(row["embed"]),
        tuple(json.loads(row["embed_in"])),
        moment_of(row["ends_at"]),
    )
