"""Sinks of a job's query: each commits a batch to one table, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tidemark.contract.store import Commit, Store, Where
from tidemark.contract.table import Change, Table


@dataclass(frozen=True)
class Upsert:
    """Aggregates the batch to a few rows and combines them with the rows of the table that they affect.

    `rows` aggregates with Spark. `touched` gives the conditions of the affected rows; `combine` makes the change.
    """

    table: Table
    rows: Callable[[DataFrame], DataFrame]
    combine: Callable[[pa.Table, pa.Table], Change]
    touched: Callable[[Table, pa.Table], Where]

    def write(self, store: Store, batch: DataFrame, commit: Commit) -> None:
        if store.committed(self.table, commit.writer) < commit.number:
            self.commit(store, self.incoming(batch), commit)

    def incoming(self, batch: DataFrame) -> pa.Table:
        """The batch's rows, aggregated by Spark."""
        return self.rows(batch).toArrow()

    def commit(self, store: Store, incoming: pa.Table, commit: Commit) -> None:
        if incoming.num_rows == 0 and not self.touched(self.table, incoming):
            store.upsert(self.table, Change(self.table.arrow_schema.empty_table()), commit)
            return
        existing = store.read(self.table, self.touched(self.table, incoming))
        store.upsert(self.table, self.combine(existing, incoming), commit)


def same_windows(table: Table, incoming: pa.Table) -> Where:
    """The rows of a windowed table within the incoming rows' time range."""
    if incoming.num_rows == 0:
        return ()
    bounds = pc.min_max(incoming[table.time]).as_py()
    return [[(table.time, ">=", bounds["min"]), (table.time, "<=", bounds["max"])]]
