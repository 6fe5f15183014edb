"""The contract of a table whose rows are aggregates: made in parts, wherever the parts are, and merged in any order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.store import Where
from tidemark.contract.table import Change

# Newest event time of each site.
Newest = Mapping[str, datetime]


class Mergeable(Protocol):
    """Partial rows: made of any part of some rows; merging them is associative and commutative."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the rows that they are made of."""

    def partial(self, rows: pa.Table) -> pa.Table:
        """Partial rows of rows that have the columns `needs`."""

    def merge(self, partials: pa.Table) -> pa.Table:
        """Partial rows of several parts as those of the whole."""


class Aggregation(Mergeable, Protocol):
    """How the rows of a table are made of the rows of its source.

    Rows that are in the table can be merged again, so neither the split of the source nor the order in which it comes
    matters.
    """

    @property
    def identity(self) -> Mapping[str, str]:
        """The parameters that rows must have in common to be merged, by name."""

    @property
    def window_seconds(self) -> int | None:
        """Rows of the source change only the rows of their own window of so many seconds; None: any row."""

    def at(self, newest: Newest) -> Aggregation:
        """The same for a moment at which these are the newest events of the sites, where that matters."""

    def touched(self, partials: pa.Table) -> Where:
        """Which rows of the table the partial rows may change; () if none."""

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        """The change that merged partial rows make to the table's `existing` ones, those that `touched` says."""


def in_range(table_time: str, partials: pa.Table) -> Where:
    """The rows of the table in the partial rows' range of time."""
    if partials.num_rows == 0:
        return ()
    bounds = pc.min_max(partials[table_time]).as_py()
    return [[(table_time, ">=", bounds["min"]), (table_time, "<=", bounds["max"])]]


def stamped(rows: pa.Table) -> pa.Table:
    """Rows with `updated_at`, the time now."""
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    return rows.append_column("updated_at", pa.repeat(now, rows.num_rows))
