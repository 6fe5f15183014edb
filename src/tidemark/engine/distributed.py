"""A batch in Spark's executors, or cached by Spark where others may not write the tables' files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine import executors
from tidemark.engine.batches import Batch, Executed, Local
from tidemark.engine.executors import Spread
from tidemark.engine.tasks import Outcome
from tidemark.engine.work import Part, Work


@contextmanager
def distributed(work: Work, rows: Spread, store: Store, label: str) -> Iterator[Batch]:
    """A batch of any size in executors. Names of written files contain `label`."""

    def none() -> Batch:
        """A batch without rows."""
        return Local(
            work, work.prepare(rows.schema.empty_table() if rows.schema else rows.frame.limit(0).toArrow())
        )

    directories = {table.name: store.directory(table) for table, _ in work.appends}
    if all(directories.values()):
        there = {name: directory for name, directory in directories.items() if directory}

        def run(keys: pa.Table | None) -> Outcome:
            return executors.run(replace(work, left_out=keys), rows, there, label)

        done = run(work.left_out)
        yield Executed(done, run) if done.partials or done.files else none()
        return
    prepared = work.validation.to_frame(rows.rows) if work.validation else rows.rows
    if work.left_out is not None:
        prepared = _without(prepared, work.left_out)
    prepared.persist()
    try:
        kept = Kept.of(work, prepared)
        # Without rows there are no partial rows, but their schema is needed.
        yield kept if kept.outcome.partials or not work.aggregations else none()
    finally:
        prepared.unpersist()


@dataclass(frozen=True)
class Kept:
    """A batch of prepared rows that Spark caches and writes, for stores that cannot take files written by others."""

    work: Work
    frame: DataFrame
    outcome: Outcome

    @classmethod
    def of(cls, work: Work, prepared: DataFrame) -> Kept:
        """From a frame of prepared rows."""
        aggregating = Work(aggregations=work.aggregations)
        outcome = executors.run(aggregating, Spread(prepared), {}, "") if work.aggregations else Outcome()
        return cls(work, prepared, outcome)

    def without(self, keys: pa.Table) -> Kept:
        return self.of(self.work, _without(self.frame, keys))

    def append(self, store: Store, table: Table, part: Part, commit: Commit) -> None:
        rows = self.frame.where(F.col(part.flag) == F.lit(part.wanted)) if part.flag else self.frame
        columns = [F.col(column.of or column.name).alias(column.name) for column in table.columns]
        store.append(table, rows.select(*columns), commit)

    def partial(self, name: str) -> pa.Table:
        return self.outcome.partials[name]


def _without(rows: DataFrame, keys: pa.Table) -> DataFrame:
    return rows.join(F.broadcast(rows.sparkSession.createDataFrame(keys)), keys.column_names, "left_anti")
