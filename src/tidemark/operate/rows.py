"""Rows of tables for rebuilds: few rows are processed here, more in executors, by the same functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, reduce
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract.aggregation import Mergeable
from tidemark.contract.expression import Expression, column
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.engine import executors
from tidemark.engine.batches import Batch, Local
from tidemark.engine.distributed import distributed
from tidemark.engine.groups import Groups, How
from tidemark.engine.work import ALL, Work
from tidemark.store.arrow_change import text_columns
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.sizes import are_few, size_of
from tidemark.stream.files import spread

# By name, a column and how its values are aggregated.
Figures: TypeAlias = Mapping[str, tuple[str, How]]
_KEY = "counted_by"


@dataclass(frozen=True)
class Slice:
    """The rows of a table at a version (None: the newest) that fulfil all conditions `where`."""

    lakehouse: Lakehouse
    table: Table
    version: int | None = None
    where: tuple[Expression, ...] = ()

    @property
    def size(self) -> tuple[float, float]:
        """Rows and bytes of the table's version; infinite if this process cannot read the table."""
        return size_of(self.lakehouse, self.table, self.version)

    def read(self) -> pa.Table:
        """The rows. Raises TableError."""
        store, wanted = DeltaRsStore(self.lakehouse), self.condition
        rows = store.read_version(self.table, self.version, self.table.column_names, self._by_statistics)
        return rows if wanted is None else rows.filter(wanted)

    def files(self) -> list[str]:
        """The paths of the files that may have such rows. Raises DeltaError or OSError."""
        rows = self.lakehouse.dataset(self.table, self.lakehouse.delta(self.table, self.version))
        files = rows.get_fragments(self._by_statistics)
        return [f"{self.lakehouse.directory(self.table)}/{file.path}" for file in files]

    @property
    def condition(self) -> pc.Expression | None:
        """All conditions as one; None without any."""
        return _all(self.where)

    @property
    def _by_statistics(self) -> pc.Expression | None:
        """The conditions that a file's statistics can rule out: not those on text."""
        text = text_columns(self.table)
        return _all([each for each in self.where if not each.columns & text])

    def frame(self, spark: SparkSession) -> DataFrame:
        reader = spark.read
        if not self.lakehouse.catalog_schema:
            reader = reader.format("delta")
        if self.version is not None:
            reader = reader.option("versionAsOf", self.version)
        frame: DataFrame = self.lakehouse.load(reader, self.table)
        for condition in self.where:
            frame = frame.where(F.expr(condition.sql))
        return frame.select(*self.table.column_names)


@dataclass(frozen=True)
class Rows:
    """Rows of one table, in one slice or several. Nothing is read before it is needed, and few rows need no session."""

    spark: Callable[[], SparkSession]
    slices: tuple[Slice, ...]

    def where(self, condition: Expression) -> Rows:
        return replace(self, slices=tuple(replace(s, where=(*s.where, condition)) for s in self.slices))

    def since(self, time: str, start: datetime | None) -> Rows:
        """The rows with a `time` from `start` on; all without it."""
        return self if start is None else self.where(column(time) >= start)

    def ranges(self, time: str, rows_wanted: int) -> list[Expression]:
        """Ranges of the column `time` with about `rows_wanted` rows each, at least one minute."""
        counts = sorted((minute, each["rows"]) for minute, each in self.counted(time, {}, 60).items())
        conditions: list[Expression] = []
        first, rows = None, 0
        for number, (minute, added) in enumerate(counts, start=1):
            first = minute if first is None else first
            rows += added
            if rows >= rows_wanted or number == len(counts):
                # A range of the column itself, so that whole files are skipped.
                start, end = (datetime.fromtimestamp(60 * each, UTC) for each in (first, minute + 1))
                conditions.append((column(time) >= start) & (column(time) < end))
                first, rows = None, 0
        return conditions

    def __add__(self, other: Rows) -> Rows:
        return replace(self, slices=(*self.slices, *other.slices))

    @cached_property
    def few(self) -> bool:
        """Whether the rows are read here."""
        return are_few(each.size for each in self.slices)

    def read(self) -> pa.Table:
        """All rows, here: only if they are few."""
        return pa.concat_tables([each.read() for each in self.slices])

    def frame(self) -> DataFrame:
        """All rows, as a frame of Spark."""
        return reduce(lambda a, b: a.unionByName(b), [each.frame(self.spark()) for each in self.slices])

    def is_empty(self) -> bool:
        return self.read().num_rows == 0 if self.few else self.frame().isEmpty()

    def counted(self, by: str, figures: Figures, seconds: int = 0) -> dict[Any, dict[str, Any]]:
        """The number of `rows` and other `figures` of them by the values of a column, or by the number of `seconds`
        since the epoch."""
        counted = self._aggregated(_Counted(by, figures, seconds))
        return {row.pop(_KEY): row for row in counted.to_pylist()}

    def _aggregated(self, aggregation: Mergeable) -> pa.Table:
        """The merged partial rows of all rows."""
        if self.few:
            return aggregation.partial(self.read().select(list(aggregation.needs)))
        work = Work(aggregations={"rows": (aggregation, ALL)})
        there = self._spread(aggregation.needs)
        partials = executors.run(work, there, {}, "").partials if there else {}
        return partials["rows"] if "rows" in partials else aggregation.partial(self._none(aggregation.needs))

    @contextmanager
    def processed(self, work: Work, store: Store, label: str) -> Iterator[Batch]:
        """The rows as a batch, with the work done on them; `label` as in `distributed`."""
        if self.few:
            yield Local(work, work.prepare(self.read()))
            return
        columns: Sequence[str] = self.slices[0].table.column_names
        if not (work.validation or work.appends):
            needed = ([*each.needs, part.flag] for each, part in work.aggregations.values())
            columns = [name for name in dict.fromkeys(chain.from_iterable(needed)) if name]
        there, none = self._spread(columns), self._none(columns)
        if there is None:
            yield Local(work, work.prepare(none))
            return
        with distributed(work, there, store, label) as batch:
            yield batch

    def _spread(self, columns: Sequence[str]) -> executors.Spread | None:
        """These columns of the rows for executors; None without rows. Spark reads files that Arrow cannot
        read, and its errors are explained."""
        first = self.slices[0]
        if first.lakehouse.can.files is not None:
            with suppress(DeltaError, OSError, pa.ArrowException):
                files = [(each.files(), each.condition) for each in self.slices]
                return spread(
                    self.spark(), first.lakehouse.files.system, first.table.arrow_schema, files, columns
                )
        return executors.Spread(self.frame().select(*columns))

    def _none(self, columns: Sequence[str]) -> pa.Table:
        return self.slices[0].table.arrow_schema.empty_table().select(list(columns))


@dataclass(frozen=True)
class _Counted:
    """Rows of `Rows.counted`, with the value that they are counted by as _KEY."""

    by: str
    figures: Figures
    seconds: int

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.by, *(name for name, _ in self.figures.values()))))

    def partial(self, rows: pa.Table) -> pa.Table:
        key = rows[self.by]
        if self.seconds:
            micros = key.cast(pa.int64()).cast(pa.float64(), safe=False)
            key = pc.floor(pc.divide(micros, self.seconds * 1e6)).cast(pa.int64())
        figures = {name: rows[of] for name, (of, _) in self.figures.items()}
        return self.merge(pa.table({_KEY: key, "rows": pa.repeat(1, rows.num_rows), **figures}))

    def merge(self, partials: pa.Table) -> pa.Table:
        hows: dict[str, How] = {_KEY: "first", "rows": "sum"}
        hows |= {name: how for name, (_, how) in self.figures.items()}
        groups = Groups.by([partials[_KEY]])
        return pa.table(groups.aggregate({name: (partials[name], how) for name, how in hows.items()}))


def _all(conditions: Sequence[Expression]) -> pc.Expression | None:
    return reduce(lambda a, b: a & b, [each.arrow for each in conditions]) if conditions else None
