"""Whole numbers about the rows of a table, written once: as an aggregate of Spark SQL, and for pyarrow.

Both forms treat NULL as SQL does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.expression import Expression, column
from tidemark.contract.table import Table


@dataclass(frozen=True, eq=False)
class Measure:
    """A whole number about rows: `sql` for Spark. For pyarrow it is the sum of `value` over the rows, or its maximum
    if `highest`; without a `value` the number of rows that repeat a key, which are the `columns`."""

    sql: str
    columns: frozenset[str]
    value: pc.Expression | None = None
    highest: bool = False


@dataclass(frozen=True, eq=False)
class Scan:
    """Measures of the rows of a table's version for which `where`, a condition on times, is true."""

    table: Table
    version: int
    measures: Sequence[Measure]
    where: Expression | None = None


def count() -> Measure:
    """Number of rows."""
    return Measure("count(*)", frozenset(), pc.scalar(True))


def unfulfilled(condition: Expression) -> Measure:
    """Number of rows for which the condition is false or NULL."""
    value = ~pc.coalesce(condition.arrow, pa.scalar(False))
    return Measure(f"count_if(NOT coalesce({condition.sql}, false))", condition.columns, value)


def total(name: str, where: Expression) -> Measure:
    """Sum of a column of type `long` over the rows for which the condition is true."""
    sql = f"coalesce(sum({name}) FILTER (WHERE {where.sql}), 0)"
    value = pc.if_else(where.arrow, pc.field(name), pa.scalar(None, pa.int64()))
    return Measure(sql, where.columns | {name}, value)


def newest(name: str) -> Measure:
    """The newest value of a timestamp column, in microseconds since the epoch; None if there is none."""
    time = column(name).micros()
    return Measure(f"max({time.sql})", time.columns, time.arrow, highest=True)


def repeated(key: Sequence[str]) -> Measure:
    """Number of rows beyond the first of their key, and of rows with a NULL in the key."""
    columns = ", ".join(f"`{name}`" for name in key)
    return Measure(f"count(*) - count(DISTINCT {columns})", frozenset(key))
