"""The changes of a table between two of its versions, as partial rows of what was removed and of what was added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Revisable, Step
from tidemark.contract.table import Table
from tidemark.engine.arrays import Flags, flags_of
from tidemark.engine.groups import Groups, whole
from tidemark.engine.intervals import micros
from tidemark.store import deltalog
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.parquet import rows_of_file

# A change of more bytes is only read if it is smaller than the table.
MUCH = 64 << 20
# Partial rows that are merged at a time.
_ROWS = 200_000
_FIRST = -(2**63)
# The writer of commits that delete rows whose time is over. Figures of these rows stay.
RETENTION = "tidemark/retention"
# A path, and the bounds of the table's time.
_File = tuple[str, int | None, int | None]
# Steps of commits, each by a writer's number that it set.
Known = Mapping[tuple[str, int], Step]


@dataclass(frozen=True)
class Change:
    """The steps from one version to another, and the last version that changed any row (the first one if none did)."""

    steps: Sequence[Step]
    version: int


class Changes(Protocol):
    """The rows of one table and their changes, aggregated as a table made of it needs them."""

    def between(self, since: int, until: int, aggregation: Revisable, known: Known) -> Change | None:
        """The change from version `since` to `until`; None if it is no longer known, or larger than the table. Files of
        commits whose steps are `known` are not read."""

    def within(self, starts: pa.ChunkedArray, aggregation: Revisable) -> pa.Table:
        """Partial rows of the newest rows in the windows with these starts."""

    def parts(self, aggregation: Revisable) -> Iterator[pa.Table]:
        """Partial rows of all newest rows, in parts that have no key in common."""


@dataclass(frozen=True)
class FileChanges:
    """Changes of a table whose log and files this process reads."""

    lakehouse: Lakehouse
    table: Table

    def between(self, since: int, until: int, aggregation: Revisable, known: Known) -> Change | None:
        moved = deltalog.moved(self.lakehouse.log(self.table), since + 1, until)
        if moved is None:
            return None
        moved = [each for each in moved if not any(writer == RETENTION for writer, _ in each.numbers)]
        given = [next((known[n] for n in each.numbers if n in known), None) for each in moved]
        size = sum(each.bytes for each, step in zip(moved, given, strict=True) if step is None)
        if size > MUCH and size > self._bytes():
            return None
        try:
            steps = [
                step or self._step(each.removed, each.added, aggregation)
                for each, step in zip(moved, given, strict=True)
            ]
        except FileNotFoundError:  # upkeep has deleted it
            return None
        return Change(steps, max((each.version for each in moved), default=since))

    def within(self, starts: pa.ChunkedArray, aggregation: Revisable) -> pa.Table:
        windows = np.unique(micros(starts))
        width = width_of(aggregation)

        def inside() -> Iterator[pa.Table]:
            if not len(windows):
                return
            for path, first, last in self._files():
                begin = 0 if first is None else np.searchsorted(windows, first - width, side="right")
                end = len(windows) if last is None else np.searchsorted(windows, last, side="right")
                if begin < end:
                    for rows in self._read(path, aggregation):
                        own = micros(rows[self.table.time]) // width * width
                        yield rows.filter(pa.array(np.isin(own, windows)))

        return aggregated(aggregation, inside(), empty_source(self.table, aggregation))

    def parts(self, aggregation: Revisable) -> Iterator[pa.Table]:
        # delta-rs may consume the parts, and cannot be called meanwhile.
        return self._parts(self._files(), aggregation)

    def _parts(self, files: Sequence[_File], aggregation: Revisable) -> Iterator[pa.Table]:
        files = sorted(files, key=lambda file: _FIRST if file[1] is None else file[1])
        width = width_of(aggregation)
        held: list[pa.Table] = []
        for number, (path, _, _) in enumerate(files, start=1):
            held.append(
                aggregated(aggregation, self._read(path, aggregation), empty_source(self.table, aggregation))
            )
            if number == len(files):
                yield aggregation.merge(pa.concat_tables(held))
            elif sum(part.num_rows for part in held[1:]) >= max(_ROWS, held[0].num_rows):
                merged = aggregation.merge(pa.concat_tables(held))
                # Later files have no rows of earlier windows.
                following = files[number][1]
                end = _FIRST if following is None else following // width * width
                done = pa.array(micros(merged[aggregation.start]) < end)
                yield merged.filter(done)
                held = [merged.filter(pc.invert(done))]

    def _step(self, removed: Sequence[str], added: Sequence[str], aggregation: Revisable) -> Step:
        """A commit's step. It leaves out the rows that the commit only copied from one file to another, which are most:
        they have the key and the clock of a row that it removed."""
        table = self.table
        schema = pa.schema([table.arrow_schema.field(name) for name in (*table.key, table.clock)])
        before, after = (
            pa.concat_tables(
                [schema.empty_table(), *(part for path in paths for part in self._rows(path, schema))]
            )
            for paths in (removed, added)
        )
        both = pa.concat_tables([before, after])
        row = Groups.by([both[name] for name in table.key])
        number, times = before.num_rows, both[table.clock]
        clock = micros(pc.fill_null(times, pa.scalar(0, times.type)))
        known = np.full(len(row), _FIRST)
        known[row.of[:number]] = clock[:number]
        copied = (known[row.of[number:]] == clock[number:]) & flags_of(whole(times.is_valid()))[number:]
        stays = np.zeros(len(row), bool)
        stays[row.of[number:][copied]] = True
        return Step(
            self._aggregated(removed, ~stays[row.of[:number]], aggregation),
            self._aggregated(added, ~copied, aggregation),
        )

    def _aggregated(self, files: Sequence[str], kept: Flags, aggregation: Revisable) -> pa.Table:
        """The merged partial rows of the flagged rows of files."""

        def flagged() -> Iterator[pa.Table]:
            first = 0
            for path in files:
                for part in self._read(path, aggregation):
                    yield part.filter(pa.array(kept[first : first + part.num_rows]))
                    first += part.num_rows

        return aggregated(aggregation, flagged(), empty_source(self.table, aggregation))

    def _read(self, path: str, aggregation: Revisable) -> Iterator[pa.Table]:
        return self._rows(path, empty_source(self.table, aggregation).schema)

    def _rows(self, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
        directory = self.lakehouse.directory(self.table)
        return rows_of_file(self.lakehouse.files.system, f"{directory}/{path}", schema)

    def _files(self) -> list[_File]:
        """The files of the newest version; bounds are in microseconds, None if not known."""
        added = pa.table(self.lakehouse.delta(self.table).get_add_actions(flatten=True))

        def bounds(which: str) -> list[int | None]:
            name = f"{which}.{self.table.time}"
            if name not in added.column_names:
                return [None] * added.num_rows
            times = added[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            bounds_of: list[int | None] = times.to_pylist()
            return bounds_of

        paths = [unquote(path) for path in added["path"].to_pylist()]
        return list(zip(paths, bounds("min"), bounds("max"), strict=True))

    def _bytes(self) -> int:
        added = pa.table(self.lakehouse.delta(self.table).get_add_actions(flatten=True))
        return pc.sum(added["size_bytes"]).as_py() or 0


def aggregated(aggregation: Revisable, parts: Iterable[pa.Table], empty: pa.Table) -> pa.Table:
    """The merged partial rows of rows that come in parts; `empty` are no rows."""
    held = [aggregation.partial(empty)]
    for rows in parts:
        held.append(aggregation.partial(rows))
        if sum(part.num_rows for part in held[1:]) > max(_ROWS, held[0].num_rows):
            held = [aggregation.merge(pa.concat_tables(held))]
    return aggregation.merge(pa.concat_tables(held))


def empty_source(table: Table, aggregation: Revisable) -> pa.Table:
    """No rows, with the columns that `aggregation` needs."""
    return pa.schema([table.arrow_schema.field(name) for name in aggregation.needs]).empty_table()


def width_of(aggregation: Revisable) -> int:
    """The width of a window, in microseconds."""
    assert aggregation.window_seconds
    return aggregation.window_seconds * 1_000_000
