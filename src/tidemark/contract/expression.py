"""Conditions on rows, written once: as an Arrow expression inside the stream, as Spark SQL over a table.

Both forms have SQL's three-valued logic, so they agree on NULL too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.figures.dialects import SparkSql

Literal = bool | int | float | str | datetime | timedelta

# Precedence of SQL's operators, the highest first.
_ATOM, _TIMES, _PLUS, _COMPARISON, _NOT, _AND, _OR = range(7)


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression over a row's columns: `sql` for Spark, `arrow` for pyarrow, and the `columns` it reads."""

    sql: str
    arrow: pc.Expression
    columns: frozenset[str]
    binds: int = _ATOM

    def __eq__(self, other: Expression | Literal) -> Expression:  # type: ignore[override]
        return self._compared("=", other, lambda a, b: a == b)

    def __ne__(self, other: Expression | Literal) -> Expression:  # type: ignore[override]
        return self._compared("<>", other, lambda a, b: a != b)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: use & for and, | for or, ~ for not")

    def __lt__(self, other: Expression | Literal) -> Expression:
        return self._compared("<", other, lambda a, b: a < b)

    def __le__(self, other: Expression | Literal) -> Expression:
        return self._compared("<=", other, lambda a, b: a <= b)

    def __gt__(self, other: Expression | Literal) -> Expression:
        return self._compared(">", other, lambda a, b: a > b)

    def __ge__(self, other: Expression | Literal) -> Expression:
        return self._compared(">=", other, lambda a, b: a >= b)

    def __and__(self, other: Expression) -> Expression:
        return self._joined("AND", other, _AND, self.arrow & other.arrow)

    def __or__(self, other: Expression) -> Expression:
        return self._joined("OR", other, _OR, self.arrow | other.arrow)

    def __invert__(self) -> Expression:
        return Expression(f"NOT {self._within(_NOT)}", ~self.arrow, self.columns, _NOT)

    def __add__(self, other: Expression | Literal) -> Expression:
        right = _expression(other)
        return self._joined("+", right, _PLUS, pc.add(self.arrow, right.arrow))

    def __sub__(self, other: Expression | Literal) -> Expression:
        right = _expression(other)
        return self._joined("-", right, _PLUS, pc.subtract(self.arrow, right.arrow))

    def __mod__(self, divisor: int) -> Expression:
        """The remainder of whole numbers, with the sign of this one."""
        times = pc.multiply(pc.divide(self.arrow, divisor), divisor)
        return self._joined("%", _expression(divisor), _TIMES, pc.subtract(self.arrow, times))

    def is_null(self) -> Expression:
        return Expression(f"{self._within(_PLUS)} IS NULL", self.arrow.is_null(), self.columns, _COMPARISON)

    def is_valid(self) -> Expression:
        return Expression(
            f"{self._within(_PLUS)} IS NOT NULL", self.arrow.is_valid(), self.columns, _COMPARISON
        )

    def between(self, least: Literal, most: Literal) -> Expression:
        """Whether the value is at least `least` and at most `most`."""
        sql = f"{self._within(_PLUS)} BETWEEN {_expression(least).sql} AND {_expression(most).sql}"
        return Expression(sql, ((self >= least) & (self <= most)).arrow, self.columns, _COMPARISON)

    def isin(self, values: Sequence[Literal]) -> Expression:
        listed = ", ".join(_expression(value).sql for value in values)
        # Arrow returns false for NULL.
        is_in = pc.if_else(self.arrow.is_valid(), self.arrow.isin(list(values)), pa.scalar(None, pa.bool_()))
        return Expression(f"{self._within(_PLUS)} IN ({listed})", is_in, self.columns, _COMPARISON)

    def matches(self, pattern: str) -> Expression:
        """Whether the whole text matches a regular expression with the same meaning in RE2 and Java."""
        whole = rf"\A(?:{pattern})\z"
        sql = f"{self._within(_PLUS)} RLIKE r'{whole}'"
        return Expression(sql, pc.match_substring_regex(self.arrow, whole), self.columns, _COMPARISON)

    def micros(self) -> Expression:
        """Microseconds of a timestamp since the epoch."""
        return Expression(f"unix_micros({self.sql})", self.arrow.cast(pa.int64()), self.columns)

    def length(self) -> Expression:
        """Number of bytes of text or bytes."""
        return Expression(f"octet_length({self.sql})", pc.binary_length(self.arrow), self.columns)

    def size(self) -> Expression:
        """Number of elements of an array."""
        return Expression(f"array_size({self.sql})", pc.list_value_length(self.arrow), self.columns)

    def _compared(self, operator: str, other: Expression | Literal, compare: Any) -> Expression:
        right = _expression(other)
        sql = f"{self._within(_PLUS)} {operator} {right._within(_PLUS)}"
        return Expression(sql, compare(self.arrow, right.arrow), self.columns | right.columns, _COMPARISON)

    def _joined(self, operator: str, other: Expression, binds: int, arrow: pc.Expression) -> Expression:
        # A sum on the right of a minus keeps its parentheses.
        right = other._within(binds if binds >= _AND else binds - 1)
        sql = f"{self._within(binds)} {operator} {right}"
        return Expression(sql, arrow, self.columns | other.columns, binds)

    def _within(self, binds: int) -> str:
        return self.sql if self.binds <= binds else f"({self.sql})"


def column(name: str) -> Expression:
    """A column of the row."""
    return Expression(name, pc.field(name), frozenset([name]))


def window_is_aligned(seconds: int) -> Expression:
    """Whether `window_start` and `window_end` are those of a window of so many seconds, aligned to the epoch."""
    start, end, width = column("window_start").micros(), column("window_end").micros(), seconds * 1_000_000
    return (start % width == 0) & (end - start == width)


def evaluated(expressions: Mapping[str, pc.Expression], rows: pa.Table) -> pa.Table:
    """The value of each expression over the rows, in a column of its name."""
    from pyarrow import acero  # it imports pandas

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.ProjectNodeOptions(list(expressions.values()), list(expressions))
    return acero.Declaration("project", project, [source]).to_table(use_threads=False)


def _expression(value: Expression | Literal) -> Expression:
    if isinstance(value, Expression):
        return value
    return Expression(_sql(value), pc.scalar(value), frozenset())


def _sql(value: Literal) -> str:
    if isinstance(value, str | datetime):
        return SparkSql().value(value)
    if isinstance(value, timedelta):
        return f"INTERVAL '{value.total_seconds():.6f}' SECOND"
    return str(value).lower()
