"""Pageviews of sessions from silver.session_steps, batch by batch.

A figure takes what it needs from a batch before the next one is read. A month of pageviews as one array would be memory
that is new to the process, and to get that can take longer than to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidemark.figures.columns import micros, whole

if TYPE_CHECKING:
    import pyarrow as pa


# Columns of few distinct texts, to be read as numbers of these.
CODED = ("steps.path", "path", "site")


class Paths:
    """Numbers of paths, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, names: Sequence[str]) -> np.ndarray:
        """The number of each path; a new one gets the next."""
        codes = np.empty(len(names), np.int32)
        for place, name in enumerate(names):
            codes[place] = number = self._numbers.setdefault(name, len(self.names))
            if number == len(self.names):
                self.names.append(name)
        return codes


@dataclass(frozen=True)
class Steps:
    """Pageviews, session by session: `session` as a row of `owners`, the sessions' other columns, `time` in
    microseconds since the epoch, and `path` as a number."""

    session: np.ndarray
    time: np.ndarray
    path: np.ndarray
    owners: pa.Table

    def only(self, kept: np.ndarray) -> Steps:
        """The pageviews that are kept, and the sessions that have one of them."""
        at = np.flatnonzero(kept)
        session = self.session[at]
        with_some = np.zeros(len(self.owners), bool)
        with_some[session] = True
        row = np.cumsum(with_some, dtype=np.int32) - 1
        return Steps(row[session], self.time[at], self.path[at], self.owners.filter(with_some))


def batches(
    stream: pa.RecordBatchReader,
    paths: Paths,
    kept: Callable[[pa.Table], pa.Table] = lambda batch: batch,
    more: Callable[[pa.Schema], pa.Table] = lambda schema: schema.empty_table(),
) -> Iterator[Steps]:
    """The steps in those rows of silver.session_steps that are `kept`, and in `more` rows; at least one batch."""
    import pyarrow as pa

    for batch in stream:
        yield _steps(kept(pa.Table.from_batches([batch])), paths)
    yield _steps(more(stream.schema), paths)


def together(parts: Sequence[Steps]) -> Steps:
    """All of them, one after the other."""
    import pyarrow as pa

    first = np.cumsum([0, *(len(each.owners) for each in parts)], dtype=np.int32)
    return Steps(
        np.concatenate([each.session + start for each, start in zip(parts, first, strict=False)]),
        np.concatenate([each.time for each in parts]),
        np.concatenate([each.path for each in parts]),
        pa.concat_tables([each.owners for each in parts]).unify_dictionaries(),
    )


def lines(stream: pa.RecordBatchReader, paths: Paths) -> Iterator[Steps]:
    """Pageviews of which each is like a session of its own, from rows of silver.requests with the columns `event_time`
    and `path`; at least one batch."""
    import pyarrow as pa

    for batch in stream:
        yield _lines(pa.Table.from_batches([batch]), paths)
    yield _lines(stream.schema.empty_table(), paths)


def _lines(table: pa.Table, paths: Paths) -> Steps:
    owners = table.drop_columns(["path"]).rename_columns({"event_time": "start_time"})
    path, time = _numbered(whole(table["path"]), paths), micros(whole(table["event_time"]))
    return Steps(np.arange(len(table), dtype=np.int32), time, path, owners)


def _steps(table: pa.Table, paths: Paths) -> Steps:
    import pyarrow.compute as pc

    lists = whole(table["steps"])
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(lists)
    session = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    time, path = (pc.struct_field(flat, name) for name in ("time", "path"))
    return Steps(session, micros(time), _numbered(path, paths), table.drop_columns(["steps"]))


def _numbered(path: pa.Array, paths: Paths) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_dictionary(path.type):
        path = path.dictionary_encode()
    if not len(path):
        return np.zeros(0, np.int32)
    numbers: np.ndarray = paths.numbers(path.dictionary.to_pylist())[path.indices.to_numpy()]
    return numbers
