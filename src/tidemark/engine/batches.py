"""A batch in this process, or in others that have written files: the same work gives the same rows in both."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.groups import anti_join
from tidemark.engine.tasks import CHUNK_BYTES, PREPARED_ROWS, Outcome
from tidemark.engine.work import Part, Work
from tidemark.machine import validation_threads

# Rows of a part that a thread prepares: each part costs about as much as four thousand rows, whatever it has.
_LEAST_ROWS = 5_000


class Batch(Protocol):
    """A batch and the work on it."""

    def without(self, keys: pa.Table) -> Batch:
        """The batch without the rows that have these keys."""

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        """Commits the new rows of an append table; nothing if there are none."""

    def partial(self, name: str) -> pa.Table:
        """The partial rows of an aggregation over the whole batch."""


@dataclass(frozen=True)
class Local:
    """A batch of prepared rows in the driver."""

    work: Work
    prepared: pa.Table

    @classmethod
    def of(cls, work: Work, rows: pa.Table, threads: Executor) -> Local:
        """Prepares rows in threads, of which there are `validation_threads`."""
        share = max(-(-rows.num_rows // validation_threads()), _LEAST_ROWS)
        short = rows.num_rows * CHUNK_BYTES // max(rows.nbytes, 1)
        size = max(1, min(share, PREPARED_ROWS, short))
        parts = [rows.slice(first, size) for first in range(0, rows.num_rows, size)] or [rows]
        return cls(work, pa.concat_tables(threads.map(work.prepare, parts)))

    def without(self, keys: pa.Table) -> Local:
        return Local(self.work, anti_join(self.prepared, keys, keys.column_names))

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        rows = self.work.rows(table, part, self.prepared).cast(table.arrow_schema)
        if rows.num_rows:
            store.append_arrow(table, rows, commit)

    def partial(self, name: str) -> pa.Table:
        return self.work.partial(name, self._encoded)

    @cached_property
    def _encoded(self) -> pa.Table:
        return self.work.encoded(self.prepared)


@dataclass(frozen=True)
class Executed:
    """A batch whose rows executors have written to files."""

    outcome: Outcome
    again: Callable[[pa.Table | None], Outcome]

    def without(self, keys: pa.Table) -> Executed:
        """Repeats the work; upkeep removes the first files."""
        return Executed(self.again(keys), self.again)

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        files = self.outcome.files.get(table.name)
        if files:
            store.append_files(table, files, commit)

    def partial(self, name: str) -> pa.Table:
        return self.outcome.partials[name]
