"""A batch in the driver, in executors, or cached by Spark: the same work gives the same rows in all three."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine import executors
from tidemark.engine.groups import anti_join
from tidemark.engine.work import Part, Work


class Batch(Protocol):
    """A batch and the work on it."""

    def without(self, keys: pa.Table) -> Batch:
        """The batch without the rows that have these keys."""

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        """Commits the new rows of an append table; nothing if there are none."""

    def partial(self, name: str) -> pa.Table:
        """The partial rows of an aggregation over the whole batch."""


@contextmanager
def distributed(
    work: Work,
    frame: DataFrame,
    store: Store,
    label: str,
    read: executors.Read = iter,
    schema: pa.Schema | None = None,
) -> Iterator[Batch]:
    """A batch of any size in executors, from a frame of its rows. Names of written files contain `label`.

    `read` reads the rows, of the `schema`, if the frame has only their locations.
    """

    def none() -> Batch:
        """A batch without rows."""
        return Local(work, work.prepare(schema.empty_table() if schema else frame.limit(0).toArrow()))

    directories = {table.name: store.directory(table) for table, _ in work.appends}
    if all(directories.values()):
        there = {name: directory for name, directory in directories.items() if directory}

        def run(keys: pa.Table | None) -> executors.Outcome:
            return executors.run(replace(work, left_out=keys), frame, there, label, read)

        done = run(None)
        yield Executed(done, run) if done.partials or done.files else none()
        return
    prepared = work.judge.to_frame(frame) if work.judge else frame
    prepared.persist()
    try:
        kept = Kept.of(work, prepared)
        # Without rows there are no partial rows, but their schema is needed.
        yield kept if kept.outcome.partials or not work.aggregations else none()
    finally:
        prepared.unpersist()


@dataclass(frozen=True)
class Local:
    """A batch of prepared rows in the driver."""

    work: Work
    prepared: pa.Table

    @classmethod
    def of(cls, work: Work, rows: pa.Table, threads: Executor) -> Local:
        """Prepares rows in threads."""
        batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
        parts = [pa.Table.from_batches([batch]) for batch in batches]
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

    outcome: executors.Outcome
    again: Callable[[pa.Table | None], executors.Outcome]

    def without(self, keys: pa.Table) -> Executed:
        """Repeats the work; upkeep removes the first files."""
        return Executed(self.again(keys), self.again)

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        files = self.outcome.files.get(table.name)
        if files:
            store.append_files(table, files, commit)

    def partial(self, name: str) -> pa.Table:
        return self.outcome.partials[name]


@dataclass(frozen=True)
class Kept:
    """A batch of prepared rows that Spark caches and writes, for stores that cannot take files written by others."""

    work: Work
    frame: DataFrame
    outcome: executors.Outcome

    @classmethod
    def of(cls, work: Work, prepared: DataFrame) -> Kept:
        """From a frame of prepared rows."""
        aggregating = Work(aggregations=work.aggregations)
        made = executors.run(aggregating, prepared, {}, "") if work.aggregations else executors.Outcome()
        return cls(work, prepared, made)

    def without(self, keys: pa.Table) -> Kept:
        gone = F.broadcast(self.frame.sparkSession.createDataFrame(keys))
        return self.of(self.work, self.frame.join(gone, keys.column_names, "left_anti"))

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        rows = self.frame.where(F.col(part.flag) == F.lit(part.wanted)) if part.flag else self.frame
        columns = [F.col(column.of or column.name).alias(column.name) for column in table.columns]
        store.append(table, rows.select(*columns), commit)

    def partial(self, name: str) -> pa.Table:
        return self.outcome.partials[name]
