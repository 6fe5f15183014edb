"""One description of a query, rendered for DataFusion or for a Databricks SQL warehouse.

Both engines share the SQL used here except for quoting, time bins and how values are passed, which
a `Dialect` holds. Column names come from this program; values always go through the dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in"]


@dataclass(frozen=True)
class Where:
    """A row filter: `column operator value`; for `in`, value is a tuple, which may be empty."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True)
class Expression:
    """A computed column: `kind` of `column`, with `argument` where the kind takes one."""

    kind: Literal["count", "sum", "min", "max", "median", "count_true", "bin", "bucket"]
    column: str = ""
    argument: Any = None


def count() -> Expression:
    """Number of rows."""
    return Expression("count")


def total(column: str) -> Expression:
    """Sum of a numeric column, 0 where there are no rows."""
    return Expression("sum", column)


def least(column: str) -> Expression:
    return Expression("min", column)


def greatest(column: str) -> Expression:
    return Expression("max", column)


def median(column: str) -> Expression:
    return Expression("median", column)


def count_true(column: str) -> Expression:
    """Number of rows in which a boolean column is true."""
    return Expression("count_true", column)


def time_bin(column: str, seconds: int) -> Expression:
    """Start of the epoch-aligned bin of `seconds` that a timestamp falls into."""
    return Expression("bin", column, int(seconds))


def bucket(column: str, bounds: Sequence[int]) -> Expression:
    """Index of the first bound that is greater than the value; `len(bounds)` where none is."""
    return Expression("bucket", column, tuple(int(b) for b in bounds))


@dataclass(frozen=True)
class Query:
    """A read of one table. `columns` maps output names to columns or expressions.

    With `group_by` (output names) the expressions are aggregated per group. `order_by` names outputs;
    a leading "-" means descending.
    """

    table: str
    columns: tuple[tuple[str, str | Expression], ...]
    where: tuple[Where, ...] = ()
    group_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None


def query(
    table: str,
    columns: Sequence[str] | Mapping[str, str | Expression],
    where: Sequence[Where] = (),
    *,
    group_by: Sequence[str] = (),
    order_by: Sequence[str] = (),
    limit: int | None = None,
) -> Query:
    pairs = columns.items() if isinstance(columns, Mapping) else ((name, name) for name in columns)
    return Query(table, tuple(pairs), tuple(where), tuple(group_by), tuple(order_by), limit)


class Dialect(Protocol):
    def name(self, identifier: str) -> str: ...
    def bin(self, column: str, seconds: int) -> str: ...
    def value(self, value: Any) -> str:
        """SQL text that stands for a value: a literal or a parameter marker."""
        ...


def render(q: Query, source: str, dialect: Dialect) -> str:
    """The SELECT statement of a query; `source` is the table as the engine names it."""
    expressions = {name: _column(spec, dialect) for name, spec in q.columns}
    sql = ["SELECT " + ", ".join(f"{text} AS {dialect.name(name)}" for name, text in expressions.items())]
    sql.append(f"FROM {source}")
    if q.where:
        sql.append("WHERE " + " AND ".join(_condition(w, dialect) for w in q.where))
    if q.group_by:
        sql.append("GROUP BY " + ", ".join(expressions[name] for name in q.group_by))
    if q.order_by:
        sql.append("ORDER BY " + ", ".join(_order(name, dialect) for name in q.order_by))
    if q.limit is not None:
        sql.append(f"LIMIT {int(q.limit)}")
    return " ".join(sql)


def _column(spec: str | Expression, dialect: Dialect) -> str:
    if isinstance(spec, str):
        return dialect.name(spec)
    column = dialect.name(spec.column) if spec.column else ""
    match spec.kind:
        case "count":
            return "COUNT(*)"
        case "sum":
            return f"COALESCE(SUM({column}), 0)"
        case "count_true":
            return f"COALESCE(SUM(CASE WHEN {column} THEN 1 ELSE 0 END), 0)"
        case "bin":
            return dialect.bin(column, spec.argument)
        case "bucket":
            cases = " ".join(f"WHEN {column} < {bound} THEN {i}" for i, bound in enumerate(spec.argument))
            return f"CASE {cases} ELSE {len(spec.argument)} END"
        case _:
            return f"{spec.kind.upper()}({column})"


def _condition(where: Where, dialect: Dialect) -> str:
    column = dialect.name(where.column)
    if where.operator == "in":
        values = ", ".join(dialect.value(v) for v in where.value)
        return f"{column} IN ({values})" if values else "1 = 0"
    return f"{column} {where.operator} {dialect.value(where.value)}"


def _order(name: str, dialect: Dialect) -> str:
    if name.startswith("-"):
        return dialect.name(name[1:]) + " DESC NULLS LAST"
    return dialect.name(name) + " ASC NULLS FIRST"


class DataFusion:
    """DataFusion as `deltalake` brings it: values become literals, as it takes no parameters."""

    def name(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'

    def bin(self, column: str, seconds: int) -> str:
        return f"date_bin(INTERVAL '{seconds} seconds', {column})"

    def value(self, value: Any) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.astimezone(UTC).isoformat(timespec='microseconds')}'"
        return "'" + str(value).replace("'", "''") + "'"


class Databricks:
    """Databricks (and Spark) SQL: values become named parameters, collected in `parameters`."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def name(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def bin(self, column: str, seconds: int) -> str:
        width = seconds * 1_000_000
        return f"timestamp_micros((unix_micros({column}) - pmod(unix_micros({column}), {width})))"

    def value(self, value: Any) -> str:
        marker = f"p{len(self.parameters)}"
        self.parameters[marker] = value
        return f":{marker}"
