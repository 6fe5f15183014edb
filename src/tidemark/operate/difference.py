"""Changes of a rebuild: rows and sums per day, before and after, and lines with another value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Table
from tidemark.engine.groups import Column, Groups, How
from tidemark.operate.revalued import Revalued
from tidemark.operate.rows import Rows

_DAY_US = 86_400_000_000.0
_NO_SUMS = ("offset", "batch_id", "partition")


@dataclass(frozen=True)
class Difference:
    """One changed number of one day (ISO date, UTC) of a table: `what` is `rows` or a column.

    Numeric columns are summed, true values of boolean columns are counted.
    """

    table: str
    day: str
    what: str
    before: int
    after: int


def differences(table: Table, before: Rows, after: Rows) -> Iterator[Difference]:
    """The numbers that differ, in order of days."""
    old, new = _days(table, before), _days(table, after)
    for day in sorted({*old, *new}):
        for what in ("rows", *_measured(table)):
            was, is_now = old.get(day, {}).get(what) or 0, new.get(day, {}).get(what) or 0
            if was != is_now:
                yield Difference(table.name, day, what, int(was), int(is_now))


def lines(changed: Sequence[Changed]) -> Iterator[str]:
    """The differences as text."""
    for entry in changed:
        if isinstance(entry, Revalued):
            yield f"{entry.table:<26} {entry}"
            continue
        yield (
            f"{entry.table:<26} {entry.day:<10}  {entry.what:<18} {entry.before:>14,} -> {entry.after:,}"
            f" ({entry.after - entry.before:+,})"
        )
    if not changed:
        yield "nothing differs"


# What a rebuild has changed.
Changed: TypeAlias = Difference | Revalued


@dataclass(frozen=True)
class _Days:
    """The number of `rows` per `day` (since the epoch; NULL without a time), and sums of other columns."""

    time: str
    columns: tuple[str, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.time, *self.columns)

    def partial(self, rows: pa.Table) -> pa.Table:
        days = pc.floor(pc.divide(rows[self.time].cast(pa.int64()).cast(pa.float64(), safe=False), _DAY_US))
        sums = {name: rows[name].cast(pa.int64()) for name in self.columns}
        return self.merge(pa.table({"day": days, "rows": pa.repeat(1, rows.num_rows), **sums}))

    def merge(self, partials: pa.Table) -> pa.Table:
        day, sums = partials["day"], partials.drop_columns(["day"])
        wanted: dict[str, tuple[Column, How]] = {name: (sums[name], "sum") for name in sums.column_names}
        return pa.table(Groups.by([day]).aggregate({"day": (day, "first"), **wanted}))


def _days(table: Table, rows: Rows) -> dict[str, dict[str, Any]]:
    days = rows.aggregated(_Days(table.time, tuple(_measured(table)))).to_pylist()
    return {_name(row["day"]): row for row in days}


def _name(day: float | None) -> str:
    return "no time" if day is None else f"{date(1970, 1, 1) + timedelta(days=day)}"


def _measured(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.type in ("long", "boolean") and c.name not in _NO_SUMS]
