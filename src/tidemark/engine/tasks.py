"""The work on one part of a batch, in a process of Spark or of our own.

Rows of append tables become Parquet files in the tables' directories, all others partial rows. The rows are processed
some ten thousand at a time, so that memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemark.contract.files import TableFile
from tidemark.contract.store import DataFile, Directory
from tidemark.engine.work import Work

# Rows that a task prepares at a time: more of them share their distinct values, but leave the processor's cache.
PREPARED_ROWS = 40_000
# Rows that a task writes and aggregates at a time.
CHUNK_ROWS = 100_000
# Rows that are longer than usual are fewer at a time.
CHUNK_BYTES = 128 << 20
# Number of parts merged at a time. If there are more tasks, executors merge their parts first.
FAN_IN = 16


@dataclass(frozen=True)
class Outcome:
    """Result of the work on a batch: the files to commit and the partial rows of the whole batch, by table. Partial
    rows are merged on first use, so that the threads that commit tables share that work."""

    files: Mapping[str, Sequence[DataFile]] = field(default_factory=dict)
    partials: Mapping[str, pa.Table] = field(default_factory=dict)


def _same(rows: pa.Table) -> pa.Table:
    return rows


@dataclass(frozen=True)
class Partials(Mapping[str, pa.Table]):
    """The partial rows of the whole batch by table, from those of its `parts`, which `read` turns into rows."""

    work: Work
    parts: Mapping[str, Sequence[Any]]
    read: Callable[[Any], pa.Table] = _same

    def __getitem__(self, name: str) -> pa.Table:
        return self.work.merged(name, list(map(self.read, self.parts[name])))

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


class Task:
    """Does the work on one part of a batch. Names of written files contain `label`."""

    def __init__(self, work: Work, directories: Mapping[str, Directory], label: str) -> None:
        self._work = work
        self._writers = [
            (table, part, TableFile(table, directories[table.name], label)) for table, part in work.appends
        ]
        self._parts: dict[str, list[pa.Table]] = {name: [] for name in work.aggregations}

    def add(self, prepared: pa.Table) -> dict[str, pa.Table]:
        """Adds a chunk of prepared rows. Returns the new rows of the append tables, by table."""
        work, appended = self._work, {}
        for table, part, writer in self._writers:
            appended[table.name] = rows = work.rows(table, part, prepared)
            writer.write(rows)
        encoded = work.encoded(prepared)
        for name, partials in self._parts.items():
            partials.append(work.partial(name, encoded))
            if len(partials) == FAN_IN:
                self._parts[name] = [work.merged(name, partials)]
        return appended

    def files(self) -> Iterator[tuple[str, DataFile]]:
        """Completes the files, and returns them with the names of their tables."""
        for table, _, writer in self._writers:
            for file in writer.close():
                yield table.name, file

    def partials(self) -> Iterator[tuple[str, pa.Table]]:
        """The merged partial rows, with the names of their tables; none without rows."""
        for name, partials in self._parts.items():
            if partials:
                yield name, self._work.merged(name, partials)


def load(work: Work, rows: pa.Table) -> None:
    """Loads the code and data that the work on such rows needs, by doing it on them."""
    prepared = work.encoded(work.prepare(rows))
    for name in work.aggregations:
        work.partial(name, prepared)


def chunks(work: Work, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The prepared rows in chunks."""
    prepared = _gathered(map(work.prepare, _gathered(rows, PREPARED_ROWS)), CHUNK_ROWS)
    # Behind a second dictionary, Parquet writes the rest of a column without any.
    return (chunk.unify_dictionaries() for chunk in prepared)


def _gathered(parts: Iterator[pa.Table], enough: int) -> Iterator[pa.Table]:
    """The same rows in fewer parts, of at least `enough` rows or CHUNK_BYTES each."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(rows.num_rows for rows in held) >= enough or sum(rows.nbytes for rows in held) >= CHUNK_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
