"""Recomputes tables from the rows of another table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemark.contract.aggregation import Aggregation, Newest
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.work import Work
from tidemark.operate import redelivery
from tidemark.operate.rows import Rows
from tidemark.stream.merge import merge_into


@dataclass(frozen=True)
class Derivation:
    """The recomputation of tables from rows of another table: the work of a flow, for existing rows.

    `since` refers to the column `time` of `source`, rounded down to windows of `window_seconds`.
    `work` and `upserts` are as in a flow. `second`: the chain's second flow updates the
    tables. `whole` tables are always recomputed as a whole, because a row may depend on any earlier time.
    """

    tables: tuple[Table, ...]
    source: Table
    time: str
    work: Work
    upserts: Sequence[tuple[Table, Aggregation]]
    second: bool
    window_seconds: int | None = None
    whole: bool = False

    @property
    def judge(self) -> Vectorized:
        """The validation of lines, for a derivation that validates."""
        assert self.work.judge
        return self.work.judge

    def put(self, rows: Rows, store: Store, newest: Newest, commit: Commit) -> None:
        """Makes the tables' rows from rows of the source; `newest` are the newest events of the sites."""
        with rows.processed(self.work, store, f"{commit.writer}-{commit.number:05d}") as batch:
            for table, part in self.work.appends:
                batch.append(store, table, part, commit)
            for table, made in self.upserts:
                merge_into(store, table, made.at(newest), batch.partial(table.name), commit)

    def without_repeated(self, surplus: pa.Table | None) -> Derivation:
        """The same, with lines of these keys rejected for their repeated delivery."""
        if not surplus:
            return self
        return replace(self, work=replace(self.work, judge=redelivery.turning_away(self.judge, surplus)))
