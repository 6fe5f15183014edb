"""Changes of a rebuild: rows and sums per day, before and after, and lines with another value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.table import Table

if TYPE_CHECKING:  # notes need neither rows nor Spark
    from tidemark.operate.rows import Rows

_DAY_SECONDS = 86_400
_NO_SUMS = ("offset", "batch_id", "partition")
_COMPARED = ("string", "long", "int", "boolean", "timestamp")
# Says which rules read the line, not what they made of it.
_NOT_COMPARED = ("rules_version",)
_NEW = "new_"


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

    def __str__(self) -> str:
        change = f"{self.before:>14,} -> {self.after:,} ({self.after - self.before:+,})"
        return f"{self.day:<10}  {self.what:<18} {change}"


@dataclass(frozen=True)
class Revalued:
    """`lines` of the `of` lines that a table has before and after a rebuild have another value of the column `what`."""

    table: str
    what: str
    lines: int
    of: int

    def __str__(self) -> str:
        return f"{self.lines:,} lines of {self.of:,} have another {self.what}"


# What a rebuild has changed.
Changed: TypeAlias = Difference | Revalued


def lines(changed: Sequence[Changed]) -> list[str]:
    """The changes as text."""
    return [f"{entry.table:<26} {entry}" for entry in changed] or ["nothing differs"]


def differences(table: Table, before: Rows, after: Rows) -> Iterator[Difference]:
    """The numbers that differ, in order of days."""
    old, new = _days(table, before), _days(table, after)
    for day in sorted({*old, *new}):
        for what in ("rows", *_measured(table)):
            was, is_now = old.get(day, {}).get(what) or 0, new.get(day, {}).get(what) or 0
            if was != is_now:
                yield Difference(table.name, day, what, int(was), int(is_now))


def _days(table: Table, rows: Rows) -> dict[str, dict[str, Any]]:
    days = rows.counted(table.time, {name: (name, "sum") for name in _measured(table)}, _DAY_SECONDS)
    return {_name(day): sums for day, sums in days.items()}


def _name(day: int | None) -> str:
    return "no time" if day is None else f"{date(1970, 1, 1) + timedelta(days=day)}"


def _measured(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.type in ("long", "boolean") and c.name not in _NO_SUMS]


def revalued(table: Table, before: Rows, after: Rows) -> Iterator[Revalued]:
    """The columns that differ, those of most lines first."""
    names = [
        column.name
        for column in table.columns
        if column.type in _COMPARED and column.name not in (*table.key, *_NOT_COMPARED)
    ]
    both = before.few and after.few
    of, counts = (_in_process if both else _in_executors)(table, names, before, after)
    for name in sorted(names, key=lambda name: -counts[name]):
        if counts[name]:
            yield Revalued(table.name, name, counts[name], of)


def _in_process(table: Table, names: list[str], before: Rows, after: Rows) -> tuple[int, Mapping[str, int]]:
    columns = [*table.key, *names]
    schema = pa.schema([table.arrow_schema.field(name) for name in columns])
    old, new = (rows.read().select(columns).cast(schema) for rows in (before, after))
    joined = old.join(
        new.rename_columns([*table.key, *(_NEW + name for name in names)]), list(table.key), join_type="inner"
    )
    return joined.num_rows, {name: _differing(joined[name], joined[_NEW + name]) for name in names}


def _differing(old: pa.ChunkedArray, new: pa.ChunkedArray) -> int:
    missing = pc.and_(pc.is_null(old), pc.is_null(new))
    same = pc.or_(pc.fill_null(pc.equal(old, new), False), missing)
    number: int = len(old) - (pc.sum(same).as_py() or 0)
    return number


def _in_executors(table: Table, names: list[str], before: Rows, after: Rows) -> tuple[int, Mapping[str, int]]:
    from pyspark.sql import functions as F

    old = before.frame().select(*table.key, *names)
    new = after.frame().select(*table.key, *(F.col(name).alias(_NEW + name) for name in names))
    differing = [F.count_if(~F.col(name).eqNullSafe(F.col(_NEW + name))).alias(name) for name in names]
    counts = old.join(new, list(table.key)).agg(F.count("*").alias("of"), *differing).collect()[0].asDict()
    return int(counts["of"]), {name: int(counts[name]) for name in names}
