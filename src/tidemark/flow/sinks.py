"""What a flow does with a prepared batch: each sink commits one table, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.store.base import Commit, Condition, Store, Where
from tidemark.table import Change, Table


@dataclass(frozen=True)
class Append:
    """Adds rows of the prepared batch, which has the table's columns: all, or those `where` a boolean
    column is as said."""

    table: Table
    where: str = ""
    wanted: bool = True

    def write(self, store: Store, batch: DataFrame, commit: Commit) -> None:
        """By Spark, for batches of any size."""
        if store.committed(self.table, commit.writer) < commit.number:
            rows = batch.where(F.col(self.where) == F.lit(self.wanted)) if self.where else batch
            columns = [F.col(c.of or c.name).alias(c.name) for c in self.table.columns]
            store.append(self.table, rows.select(*columns), commit)

    def write_fetched(self, store: Store, batch: pa.Table, commit: Commit) -> None:
        """From the fetched batch: no Spark job and no commit of nothing."""
        rows = batch.select([c.of or c.name for c in self.table.columns])
        rows = rows.filter(pc.equal(batch[self.where], self.wanted)) if self.where else rows
        if rows.num_rows and store.committed(self.table, commit.writer) < commit.number:
            store.append_arrow(self.table, rows.rename_columns(self.table.column_names), commit)


@dataclass(frozen=True)
class Upsert:
    """Aggregates the batch to a few rows, combines them with the rows of the table that they touch.

    `rows` has Spark do that, `rows_here` does it with a fetched batch, which not every flow has. `touched` says which
    rows of the table the few touch; `combine` makes the change of both. `where`: only rows with this flag count.
    """

    table: Table
    rows: Callable[[DataFrame], DataFrame]
    combine: Callable[[pa.Table, pa.Table], Change]
    touched: Callable[[Table, pa.Table], Where]
    rows_here: Callable[[pa.Table], pa.Table] | None = None
    where: str = ""

    def write(self, store: Store, batch: DataFrame, commit: Commit) -> None:
        if store.committed(self.table, commit.writer) < commit.number:
            self.commit(store, self.incoming(batch), commit)

    def incoming(self, batch: DataFrame) -> pa.Table:
        """The rows that Spark makes of the batch."""
        return self.rows(batch.where(self.where) if self.where else batch).toArrow()

    def write_fetched(self, store: Store, batch: pa.Table, commit: Commit) -> None:
        assert self.rows_here, f"{self.table.name} is not made of fetched batches"
        if store.committed(self.table, commit.writer) < commit.number:
            batch = batch.filter(batch[self.where]) if self.where else batch
            self.commit(store, self.rows_here(batch), commit)

    def commit(self, store: Store, incoming: pa.Table, commit: Commit) -> None:
        if incoming.num_rows == 0 and not self.touched(self.table, incoming):
            store.upsert(self.table, Change(self.table.arrow_schema.empty_table()), commit)
            return
        existing = store.read(self.table, self.touched(self.table, incoming))
        store.upsert(self.table, self.combine(existing, incoming), commit)


Sink = Append | Upsert


def same_windows(table: Table, incoming: pa.Table) -> Where:
    """The rows of a windowed table in the incoming rows' range of time."""
    if incoming.num_rows == 0:
        return ()
    bounds = pc.min_max(incoming[table.time]).as_py()
    return [[(table.time, ">=", bounds["min"]), (table.time, "<=", bounds["max"])]]


def sessions_near(incoming: pa.Table, gap_seconds: int, newest: Mapping[str, datetime]) -> Where:
    """The sessions that incoming intervals may join, and the open ones that the sites in `newest` may have left
    behind: one condition for all of these sites, so that the cost of many is that of a look-up."""
    gap = timedelta(seconds=gap_seconds)
    groups: list[list[Condition]] = []
    if newest:
        latest = max(newest.values()) - gap
        groups.append([("closed", "=", False), ("site", "in", list(newest)), ("end_time", "<", latest)])
    if incoming.num_rows:
        first = pc.min(incoming["start_time"]).as_py() - gap
        last = pc.max(incoming["end_time"]).as_py() + gap
        visitors = pc.unique(incoming["visitor_id"]).to_pylist()
        groups.append([("end_time", ">=", first), ("start_time", "<=", last), ("visitor_id", "in", visitors)])
    return groups
