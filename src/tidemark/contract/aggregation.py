"""The contract of a table of aggregates: partial rows of any part of the source, merged in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from tidemark.contract.store import Where
from tidemark.contract.table import Change

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_MOST_RANGES = 8

# Newest event time of each site.
Newest = Mapping[str, datetime]


class Mergeable(Protocol):
    """Partial rows, made of any part of the rows. Merging is associative and commutative."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The required columns of the rows."""

    def partial(self, rows: pa.Table) -> pa.Table:
        """Makes partial rows of rows with the columns `needs`."""

    def merge(self, partials: pa.Table) -> pa.Table:
        """Merges partial rows of several parts to those of the whole."""


@runtime_checkable
class Encoding(Protocol):
    """An aggregation whose `partial` takes text columns dictionary-encoded, too."""

    @property
    def encodes(self) -> tuple[str, ...]:
        """The columns by whose values it groups: encoded once for all aggregations of a batch."""


class Aggregation(Mergeable, Protocol):
    """How a table's rows are made of its source.

    Rows of the table can be merged again, so the result depends neither on the split of the source nor on its
    order.
    """

    @property
    def identity(self) -> Mapping[str, str]:
        """The parameters that must be equal for rows to be merged, by name."""

    @property
    def window_seconds(self) -> int | None:
        """Length of the windows, if source rows change only rows of their own window; None if they change any."""

    def at(self, newest: Newest) -> Aggregation:
        """The same aggregation at the moment when these are the newest events of the sites, if it depends on them."""

    def touched(self, partials: pa.Table) -> Where:
        """Conditions of the table's rows that the partial rows may change; () for none."""

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The change of the table by merged partial rows; `existing` are the rows of `touched`."""


@dataclass(frozen=True)
class Difference:
    """The effect of a change of the source: partial rows with what to add to the table's rows, whose sums may be
    negative, and the keys of the `lost` rows, which must be recomputed from the source."""

    changed: pa.Table
    lost: pa.Table


@dataclass(frozen=True)
class Step:
    """One change of the source: partial rows of rows that it removed, and of rows that it added. A row that is in both
    has not changed."""

    removed: pa.Table
    added: pa.Table


class Revisable(Aggregation, Protocol):
    """How a table's rows are made of a source whose rows change. A source row changes only rows of its own window."""

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the table."""

    @property
    def start(self) -> str:
        """The column of the key with the start of the window."""

    def difference(self, steps: Sequence[Step]) -> Difference:
        """The effect of the steps, one after the other; at least one."""

    def revise(self, existing: pa.Table, difference: Difference, recomputed: pa.Table) -> Change:
        """The change of the table. `existing` are the rows of `touched`, `recomputed` the partial rows of all source
        rows of the lost keys."""


def in_range(table_time: str, partials: pa.Table) -> Where:
    """Conditions of the table's rows within the time ranges of the partial rows."""
    where = time_ranges(partials[table_time])
    return [[(table_time, ">=", first), (table_time, "<=", last)] for first, last in where]


def time_ranges(times: pa.ChunkedArray) -> list[tuple[datetime, datetime]]:
    """The first and last times of ranges that have all of the times: split where there is none for more than a day, so
    that late lines do not read or merge what lies between."""
    micros = np.unique(times.drop_null().cast(pa.int64()).to_numpy())
    gaps = np.diff(micros)
    widest = np.argsort(-gaps, kind="stable")[: _MOST_RANGES - 1]
    ends = np.sort(widest[gaps[widest] > _DAY_US])
    firsts, lasts = np.append(micros[:1], micros[ends + 1]), np.append(micros[ends], micros[-1:])
    return [(_moment(first), _moment(last)) for first, last in zip(firsts, lasts, strict=True)]


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=int(micros))


def stamped(rows: pa.Table) -> pa.Table:
    """Adds `updated_at`, the current time."""
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    return rows.append_column("updated_at", pa.repeat(now, rows.num_rows))
