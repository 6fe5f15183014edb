"""Changes of a rebuild: rows and sums per day, before and after, and lines with another value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias

from tidemark.contract.table import Table
from tidemark.operate.revalued import Revalued
from tidemark.operate.rows import Rows

_DAY_SECONDS = 86_400
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


def _days(table: Table, rows: Rows) -> dict[str, dict[str, Any]]:
    days = rows.counted(table.time, {name: (name, "sum") for name in _measured(table)}, _DAY_SECONDS)
    return {_name(day): sums for day, sums in days.items()}


def _name(day: int | None) -> str:
    return "no time" if day is None else f"{date(1970, 1, 1) + timedelta(days=day)}"


def _measured(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.type in ("long", "boolean") and c.name not in _NO_SUMS]
