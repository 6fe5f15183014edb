"""Rows of queries, kept for all viewers until a table of the query has another version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemark.figures.permitted import is_restricted
from tidemark.figures.query import Query
from tidemark.figures.reader import Files, Reader, Through, Version
from tidemark.figures.recent import Recent

if TYPE_CHECKING:
    import pyarrow as pa

# The versions of these tables, before they are read.
Versions = Callable[[Reader, Sequence[str]], tuple[Version | None, ...]]
# Rows that take more than this part of the memory are not kept.
_PART = 4


@dataclass(frozen=True)
class Keeping(Through):
    """A reader that keeps the rows it reads; those of `coded`, which can be many, it does not."""

    kept: Recent[pa.Table]
    versions: Versions

    def version(self, table: str) -> Version | None:
        return self.versions(self.reader, [table])[0]

    def files(self, table: str, time: str) -> Files | None:
        self.versions(self.reader, [table])
        return self.reader.files(table, time)

    def arrow(self, q: Query) -> pa.Table:
        # Only a right tells rows that are shown from those that are counted.
        asked = q if is_restricted(self.reader) else replace(q, counted=False)
        key = (self.label, repr(asked), self.versions(self.reader, list(q.tables())))
        most = self.kept.bytes // _PART
        return self.kept.made(key, lambda: self.reader.arrow(q), lambda rows: rows.nbytes, most)

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        self.versions(self.reader, list(q.tables()))
        return self.reader.coded(q, names)
