"""A reader that records what an answer depends on, and keeps a question within its time; versions of tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemark.api.errors import TooLongError
from tidemark.figures.query import Query
from tidemark.figures.reader import Contract, Files, Reader, Through, Version

if TYPE_CHECKING:
    import pyarrow as pa

Versions = dict[str, Version | None]


@dataclass(frozen=True)
class Watched(Through):
    """The `Reader` of one question. `versions` has each table that it has read, at its version before the first read.
    A read after `until` (of time.monotonic) raises TooLongError."""

    seconds: float
    until: float
    versions: Versions = field(default_factory=dict)

    def version(self, table: str) -> Version | None:
        self._watch(table)
        return super().version(table)

    def contract(self, table: str) -> Contract:
        self._watch(table)
        return super().contract(table)

    def files(self, table: str, time: str) -> Files | None:
        self._watch(table)
        return super().files(table, time)

    def arrow(self, q: Query) -> pa.Table:
        self._watch(*q.tables())
        return super().arrow(q)

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        self._watch(*q.tables())
        return super().coded(q, names)

    def _watch(self, *tables: str) -> None:
        if time.monotonic() > self.until:
            raise TooLongError(self.seconds)
        for table in tables:
            if table not in self.versions:
                self.versions[table] = self.reader.version(table)


@dataclass(frozen=True)
class RecentVersions:
    """The versions of a reader's tables, each of which is looked up again after so many seconds. It is also the
    `Versions` of a `Keeping` reader."""

    reader: Reader
    seconds: float
    _known: dict[str, tuple[float, Version | None]] = field(default_factory=dict)

    def __call__(self, reader: Reader, tables: Sequence[str]) -> tuple[Version | None, ...]:
        return tuple(map(self.version, tables))

    def version(self, table: str) -> Version | None:
        """The table's version. Raises ReadError."""
        known = self._known.get(table)
        now = time.monotonic()
        if known is None or now - known[0] >= self.seconds:
            known = self._known[table] = now, self.reader.version(table)
        return known[1]
