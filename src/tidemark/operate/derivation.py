"""Recomputes tables from the rows of another table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

    With a `validation` it makes the tables `appends` of lines, otherwise those of `upserts` of accepted lines.
    """

    source: Table
    validation: Vectorized | None = None
    appends: tuple[Table, ...] = ()
    upserts: tuple[tuple[Table, Aggregation], ...] = ()

    @classmethod
    def of_lines(cls, home: Home, validation: Vectorized, *, masks: bool = False) -> Derivation:
        """Validates all lines again. They keep the time at which they were first read. If it `masks` lines, also those
        of the table of all lines."""
        graph = home.graph
        return cls(
            graph.lines, validation, (graph.accepted, graph.rejected, *([graph.lines] if masks else []))
        )

    @classmethod
    def of_accepted(cls, home: Home) -> tuple[Derivation, ...]:
        """For each table that is made of accepted lines."""
        graph, meaning = home.graph, home.settings.meaning
        return tuple(
            cls(graph.accepted, upserts=((table, table.aggregation(meaning)),))
            for table in graph.derived
            if table.aggregation
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        return (*self.appends, *(table for table, _ in self.upserts))

    @property
    def work(self) -> Work:
        return Work(
            validation=self.validation,
            appends=[(table, PARTS_OF_LINES[table.lines]) for table in self.appends],
            aggregations={table.name: (aggregation, ALL) for table, aggregation in self.upserts},
        )

    @property
    def validates(self) -> bool:
        """Whether it makes the tables with a row per accepted or rejected line."""
        return self.validation is not None

    @property
    def second(self) -> bool:
        """Whether the flow `activity` updates the tables."""
        return any(not table.now for table, _ in self.upserts)

    @property
    def whole(self) -> bool:
        """Whether the tables are always recomputed as a whole, because a row may depend on any earlier time."""
        return any(aggregation.window_seconds is None for _, aggregation in self.upserts)

    @property
    def time(self) -> str:
        """The column of the source by which a part of its rows is chosen."""
        return self.replaced_by(self.source)

    def replaced_by(self, table: Table) -> str:
        """The column of one of its tables by which a part of the rows is replaced."""
        return table.clock if self.validates else table.time

    def put(self, rows: Rows, store: Store, newest: Newest, commit: Commit) -> None:
        """Makes the tables' rows from rows of the source; `newest` are the newest events of the sites."""
        work = self.work
        with rows.processed(work, store, f"{commit.writer}-{commit.number:05d}") as batch:
            for table, part in work.appends:
                batch.append(store, table, part, commit)
            for table, aggregation in self.upserts:
                merge_into(store, table, aggregation.at(newest), batch.partial(table.name), commit)

    def without_repeated(self, surplus: pa.Table | None) -> Derivation:
        """The same, with lines of these keys rejected for their repeated delivery."""
        if not surplus or not self.validation:
            return self
        return replace(self, validation=redelivery.turning_away(self.validation, surplus))


def together(
    derivations: Iterable[Derivation], since: datetime | None = None, kept: datetime | None = None
) -> Iterator[tuple[Derivation, datetime | None]]:
    """The derivations of accepted lines, each with the start (None: the beginning) of the rows for `since`: those that
    read the same rows become one, which reads them once. Windows that begin before `kept` are left as they are."""
    groups: dict[tuple[bool, datetime | None], list[Derivation]] = {}
    for each in derivations:
        width = next(aggregation.window_seconds for _, aggregation in each.upserts) or 1
        starts = [floor(since, width)] if since else []
        starts += [ceil(kept, width)] if kept else []
        start = None if each.whole else max(starts, default=None)
        groups.setdefault((each.second, start), []).append(each)
    for (_, start), group in groups.items():
        yield replace(group[0], upserts=tuple(chain.from_iterable(each.upserts for each in group))), start
