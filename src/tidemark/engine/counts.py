"""Sums and distinct visitors per event-time window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest, in_range, stamped
from tidemark.contract.store import Where
from tidemark.contract.table import Change
from tidemark.engine import sketches
from tidemark.engine.groups import Groups, How, semi_join, whole

_MICROSECONDS = 1_000_000
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Sum:
    """The contribution of each row to a sum: 1, the value of a column (a flag is 1 or 0, NULL is 0), or 1 if the value
    is within bounds."""

    column: str = ""
    within: tuple[int, int] | None = None

    def of(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """The contributions of the rows (long)."""
        if not self.column:
            return pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        values = rows[self.column]
        if self.within:
            least, most = self.within
            values = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
        return pc.fill_null(pc.cast(values, pa.int64()), 0)

    def __str__(self) -> str:
        if self.within:
            return f"rows with {self.column} {self.within[0]} to {self.within[1]}"
        return f"sum of {self.column}" if self.column else "rows"


ROWS = Sum()


@dataclass(frozen=True)
class WindowedCounts:
    """Sums and distinct visitors per site, tumbling window of `seconds`, and further columns `by`.

    Counts the rows of silver.requests, or those with the flag `where`. Visitors exclude bots. `bounds` are smallest or
    largest values of columns.
    """

    seconds: int
    sums: Mapping[str, Sum]
    by: tuple[str, ...] = ()
    where: str = ""
    bounds: Mapping[str, tuple[str, Literal["min", "max"]]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the table."""
        return ("site", "window_start", *self.by)

    @property
    def needs(self) -> tuple[str, ...]:
        used = [
            *(each.column for each in self.sums.values()),
            *(column for column, _ in self.bounds.values()),
        ]
        names = ("site", "event_time", "visitor_id", "bot", *self.by, self.where, *used)
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def identity(self) -> Mapping[str, str]:
        sums = {name: str(each) for name, each in self.sums.items()}
        sums |= {name: f"{how} of {column}" for name, (column, how) in self.bounds.items()}
        sketch = f"theta sketch of 2^{sketches.LG_ENTRIES}"
        return {"window": f"{self.seconds} s", **sums, "visitors_sketch": sketch}

    @property
    def window_seconds(self) -> int:
        return self.seconds

    def at(self, newest: Newest) -> WindowedCounts:
        return self

    def partial(self, rows: pa.Table) -> pa.Table:
        """Key, sums, `hashes` (list of uint64) of the visitors and `theta`, see `tidemark.engine.sketches`."""
        if self.where:
            rows = rows.filter(rows[self.where])
        keys = {name: rows[name] for name in ("site", *self.by)} | {
            "window_start": self._start(rows["event_time"])
        }
        groups = Groups.by([keys[name] for name in self.key])
        visitors = pc.if_else(rows["bot"], None, rows["visitor_id"])
        found = sketches.of_values(groups.of, visitors, len(groups))
        values = {name: each.of(rows) for name, each in self.sums.items()}
        values |= {name: rows[column] for name, (column, _) in self.bounds.items()}
        return self._rows(groups, keys, values, found)

    def merge(self, partials: pa.Table) -> pa.Table:
        groups = Groups.by([partials[name] for name in self.key])
        rows, hashes, theta = sketches.of_lists(whole(partials["hashes"]), whole(partials["theta"]))
        least = np.full(len(groups), sketches.WHOLE)
        np.minimum.at(least, groups.of, theta)
        found = sketches.unite(groups.of[rows], hashes, least)
        keys = {name: partials[name] for name in self.key}
        values = {name: partials[name] for name in (*self.sums, *self.bounds)}
        return self._rows(groups, keys, values, found)

    def touched(self, partials: pa.Table) -> Where:
        return in_range("window_start", partials)

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        before = semi_join(
            existing.select([*self.key, *self.sums, *self.bounds, "visitors_sketch"]), partials, self.key
        )
        own = sketches.of_bytes(before["visitors_sketch"])
        kept = before.drop_columns("visitors_sketch")
        kept = kept.append_column("hashes", own.to_lists()).append_column("theta", pa.array(own.theta))
        merged = self.merge(
            pa.concat_tables([kept.select(partials.column_names).cast(partials.schema), partials])
        )
        rows, hashes, theta = sketches.of_lists(whole(merged["hashes"]), whole(merged["theta"]))
        visitors = sketches.unite(rows, hashes, theta).limited()
        end = pc.add(merged["window_start"], pa.scalar(self.seconds * _MICROSECONDS, pa.duration("us")))
        made = merged.drop_columns(["hashes", "theta"]).append_column("window_end", end)
        made = made.append_column("visitors", visitors.counts())
        return Change(stamped(made.append_column("visitors_sketch", visitors.to_bytes())))

    def _rows(
        self,
        groups: Groups,
        keys: Mapping[str, pa.ChunkedArray],
        values: Mapping[str, pa.ChunkedArray],
        visitors: sketches.Sketches,
    ) -> pa.Table:
        columns: dict[str, tuple[pa.ChunkedArray, How]] = {name: (keys[name], "first") for name in self.key}
        columns |= {name: (values[name], "sum") for name in self.sums}
        columns |= {name: (values[name], how) for name, (_, how) in self.bounds.items()}
        return pa.table(
            groups.aggregate(columns) | {"hashes": visitors.to_lists(), "theta": pa.array(visitors.theta)}
        )

    def _start(self, time: pa.ChunkedArray) -> pa.Array:
        width = self.seconds * _MICROSECONDS
        micros = np.asarray(time.cast(pa.int64()))
        return pa.array(micros // width * width).cast(_TIME)
