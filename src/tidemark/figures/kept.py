"""Rows of queries, kept for all viewers until a table of the query has another version."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidemark.figures.query import Query
from tidemark.figures.reader import Reader, Through, Version

if TYPE_CHECKING:
    import pyarrow as pa

# The versions of these tables, before they are read.
Versions = Callable[[Reader, Sequence[str]], tuple[Version | None, ...]]


@dataclass
class Kept:
    """Rows by key, of at most `bytes` in all; those that were not used for longest go first. Nobody changes them."""

    bytes: int = 96_000_000
    _rows: OrderedDict[Any, pa.Table] = field(default_factory=OrderedDict)
    _size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Any) -> pa.Table | None:
        with self._lock:
            rows = self._rows.get(key)
            if rows is not None:
                self._rows.move_to_end(key)
            return rows

    def put(self, key: Any, rows: pa.Table) -> None:
        with self._lock:
            if key in self._rows or rows.nbytes > self.bytes // 4:
                return
            self._rows[key] = rows
            self._size += rows.nbytes
            while self._size > self.bytes:
                _, old = self._rows.popitem(last=False)
                self._size -= old.nbytes

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._size = 0


@dataclass(frozen=True)
class Keeping(Through):
    """A reader that keeps the rows it reads; those of `coded`, which can be many, it does not."""

    kept: Kept
    versions: Versions

    def version(self, table: str) -> Version | None:
        return self.versions(self.reader, [table])[0]

    def arrow(self, q: Query) -> pa.Table:
        key = (self.label, repr(q), self.versions(self.reader, list(q.tables())))
        rows = self.kept.get(key)
        if rows is None:
            rows = self.reader.arrow(q)
            self.kept.put(key, rows)
        return rows

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        self.versions(self.reader, list(q.tables()))
        return self.reader.coded(q, names)
