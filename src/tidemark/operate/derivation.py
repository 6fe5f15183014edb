"""Recomputes tables from the rows of another table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

import pyarrow as pa

from tidemark.contract.aggregation import Aggregation, Newest
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.work import ALL, PARTS_OF_LINES, Work
from tidemark.home import Home
from tidemark.operate import redelivery
from tidemark.operate.retention import ceil, floor
from tidemark.operate.rows import Rows
from tidemark.stream.merge import merge_into


@dataclass(frozen=True)
class Derivation:
    """Recomputes tables from rows of another table: the work of a flow, for existing rows.

    `since` refers to the column `time` of `source`, rounded down to windows of `window_seconds`. `work` and `upserts`
    are as in a flow. `second`: the flow `activity` updates the tables. `whole` tables are always recomputed as a whole,
    because a row may depend on any earlier time.
    """

    tables: tuple[Table, ...]
    source: Table
    time: str
    work: Work
    upserts: Sequence[tuple[Table, Aggregation]]
    second: bool
    window_seconds: int | None = None
    whole: bool = False

    @classmethod
    def of_lines(cls, home: Home, validation: Vectorized, *, masks: bool = False) -> Derivation:
        """Validates all lines again. They keep the time at which they were first read. If it `masks` lines, also those
        of the table of all lines."""
        graph = home.graph
        tables = (graph.accepted, graph.rejected, *([graph.lines] if masks else []))
        work = Work(validation=validation, appends=[(table, PARTS_OF_LINES[table.lines]) for table in tables])
        return cls(tables, graph.lines, graph.lines.clock, work, upserts=(), second=False)

    @classmethod
    def of_accepted(cls, home: Home) -> tuple[Derivation, ...]:
        """For each table that is made of accepted lines."""
        source, meaning = home.graph.accepted, home.settings.meaning
        aggregations = [
            (table, table.aggregation(meaning)) for table in home.graph.derived if table.aggregation
        ]
        return tuple(
            cls(
                tables=(table,),
                source=source,
                time=source.time,
                work=Work(aggregations={table.name: (each, ALL)}),
                upserts=((table, each),),
                second=not table.now,
                window_seconds=each.window_seconds,
                whole=each.window_seconds is None,
            )
            for table, each in aggregations
        )

    @property
    def validates(self) -> bool:
        """Whether it makes the tables with a row per accepted or rejected line."""
        return self.work.validation is not None

    @property
    def validation(self) -> Vectorized:
        """The validation of lines, for a derivation that validates."""
        assert self.work.validation
        return self.work.validation

    def replaced_by(self, table: Table) -> str:
        """The column of one of its tables by which a part of the rows is replaced."""
        return table.clock if self.validates else table.time

    def put(self, rows: Rows, store: Store, newest: Newest, commit: Commit) -> None:
        """Makes the tables' rows from rows of the source; `newest` are the newest events of the sites."""
        with rows.processed(self.work, store, f"{commit.writer}-{commit.number:05d}") as batch:
            for table, part in self.work.appends:
                batch.append(store, table, part, commit)
            for table, aggregation in self.upserts:
                merge_into(store, table, aggregation.at(newest), batch.partial(table.name), commit)

    def without_repeated(self, surplus: pa.Table | None) -> Derivation:
        """The same, with lines of these keys rejected for their repeated delivery."""
        if not surplus:
            return self
        return replace(
            self, work=replace(self.work, validation=redelivery.turning_away(self.validation, surplus))
        )


def together(
    derivations: Iterable[Derivation], since: datetime | None = None, kept: datetime | None = None
) -> Iterator[tuple[Derivation, datetime | None]]:
    """The same tables by fewer derivations, each with the start (None: the beginning) of the rows for `since`: those
    that read the same rows become one, which reads them once. Windows that begin before `kept` are left as they are."""
    groups: dict[tuple[str, str, bool, datetime | None], list[Derivation]] = {}
    for each in derivations:
        width = each.window_seconds or 1
        starts = [floor(since, width)] if since else []
        starts += [ceil(kept, width)] if kept else []
        start = None if each.whole else max(starts, default=None)
        groups.setdefault((each.source.name, each.time, each.second, start), []).append(each)
    for (_, _, _, start), group in groups.items():
        aggregations = {name: one for each in group for name, one in each.work.aggregations.items()}
        one = replace(
            group[0],
            tables=tuple(chain.from_iterable(each.tables for each in group)),
            work=replace(group[0].work, aggregations=aggregations),
            upserts=tuple(chain.from_iterable(each.upserts for each in group)),
        )
        yield one, start
