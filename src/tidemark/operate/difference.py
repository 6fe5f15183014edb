"""Changes of a rebuild: rows and sums per day, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract.table import Table

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


def differences(table: Table, before: DataFrame, after: DataFrame) -> Iterator[Difference]:
    """The numbers that differ, in order of days."""
    old, new = _days(table, before), _days(table, after)
    for day in sorted({*old, *new}):
        for what in ("rows", *_measured(table)):
            was, is_now = old.get(day, {}).get(what) or 0, new.get(day, {}).get(what) or 0
            if was != is_now:
                yield Difference(table.name, day, what, int(was), int(is_now))


def differences_of(tables: Iterable[tuple[Table, DataFrame, DataFrame]]) -> Iterator[Difference]:
    """The differences of several tables, one after the other."""
    # A job over a small table is mostly planning, so several run at once.
    with ThreadPoolExecutor(max_workers=4) as threads:
        for found in threads.map(lambda each: list(differences(*each)), tables):
            yield from found


def lines(found: Sequence[Difference]) -> Iterator[str]:
    """The differences as text."""
    for entry in found:
        yield (
            f"{entry.table:<26} {entry.day:<10}  {entry.what:<18} {entry.before:>14,} -> {entry.after:,}"
            f" ({entry.after - entry.before:+,})"
        )
    if not found:
        yield "nothing differs"


def _days(table: Table, rows: DataFrame) -> dict[str, dict[str, Any]]:
    day = F.coalesce(F.date_format(F.col(table.time), "yyyy-MM-dd"), F.lit("no time")).alias("day")
    sums = [
        (F.count_if(F.col(c.name)) if c.type == "boolean" else F.sum(c.name)).alias(c.name)
        for c in table.columns
        if c.name in _measured(table)
    ]
    found = rows.groupBy(day).agg(F.count("*").alias("rows"), *sums)
    return {row["day"]: row for row in found.toArrow().to_pylist()}


def _measured(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.type in ("long", "boolean") and c.name not in _NO_SUMS]
