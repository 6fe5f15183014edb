"""Time ranges for work in parts, and rounding to windows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from tidemark.contract.expression import Expression, column
from tidemark.engine.groups import Groups
from tidemark.operate.rows import Rows

_MINUTE_US = 60_000_000


@dataclass(frozen=True)
class _Minutes:
    """The number of `rows` per `minute` of a column, since the epoch."""

    time: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.time,)

    def partial(self, rows: pa.Table) -> pa.Table:
        minutes = np.floor_divide(rows[self.time].cast(pa.int64()).to_numpy(), _MINUTE_US)
        return self.merge(pa.table({"minute": minutes, "rows": np.ones(len(minutes), np.int64)}))

    def merge(self, partials: pa.Table) -> pa.Table:
        minute, rows = partials["minute"], partials["rows"]
        return pa.table(Groups.by([minute]).aggregate({"minute": (minute, "first"), "rows": (rows, "sum")}))


def time_ranges(source: Rows, time: str, rows_wanted: int) -> list[Expression]:
    """Ranges of the column `time` with about `rows_wanted` rows each, at least one minute."""
    counts = source.aggregated(_Minutes(time)).sort_by("minute").to_pylist()
    conditions: list[Expression] = []
    first, rows = None, 0
    for number, entry in enumerate(counts, start=1):
        first = entry["minute"] if first is None else first
        rows += entry["rows"]
        if rows >= rows_wanted or number == len(counts):
            # A range of the column itself, so that whole files are skipped.
            start, end = _moment(first), _moment(entry["minute"] + 1)
            conditions.append((column(time) >= start) & (column(time) < end))
            first, rows = None, 0
    return conditions


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


def since_then(rows: Rows, time: str, since: datetime | None) -> Rows:
    """The rows from `since` on; all without it."""
    return rows if since is None else rows.where(column(time) >= since)


def iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
