"""One description of a query, rendered for every engine that the tables are read with.

The engines share the SQL used here except for what a `Dialect` holds (dialects.py). Column names come from
this program; values always go through the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

Operator = Literal[
    "=", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "starts with", "is null", "is not null"
]
Kind = Literal[
    "count", "distinct", "sum", "min", "max", "median", "count_true",
    "bin", "bucket", "log_bucket", "text", "filled", "cut",
]  # fmt: skip
AGGREGATES: frozenset[Kind] = frozenset({"count", "distinct", "sum", "min", "max", "median", "count_true"})


@dataclass(frozen=True)
class Where:
    """A row filter: `column operator value`; for `in` and `not in`, value is a tuple, which may be empty.

    As in SQL, no operator but `is null` keeps a row whose column is NULL.
    """

    column: str | Expression
    operator: Operator
    value: Any = None


@dataclass(frozen=True)
class AnyOf:
    """Keeps the rows that one of the conditions keeps; none where there are no conditions."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Exists:
    """Keeps the rows for which `table` has a row: one that `where` keeps and that relates to the row by every
    `on`, (column of `table`, operator, column of the row)."""

    table: str
    on: tuple[tuple[str, Literal["=", "<=", ">="], str], ...]
    where: tuple[Condition, ...] = ()


Condition: TypeAlias = Where | AnyOf | Exists


@dataclass(frozen=True)
class Expression:
    """A computed column: `kind` of `column`, with `argument` where the kind takes one. An aggregate only
    regards the rows that `when` keeps."""

    kind: Kind
    column: str = ""
    argument: Any = None
    when: tuple[Condition, ...] = ()


def count(*when: Condition) -> Expression:
    """Number of rows."""
    return Expression("count", when=when)


def distinct_values(column: str, *when: Condition) -> Expression:
    """Number of distinct values, NULL not among them."""
    return Expression("distinct", column, when=when)


def total(column: str, *when: Condition) -> Expression:
    """Sum of a numeric column, 0 where there are no rows."""
    return Expression("sum", column, when=when)


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


def log_bucket(column: str, gamma: float) -> Expression:
    """ceil(ln value / ln gamma), and 0 for values below 1."""
    return Expression("log_bucket", column, float(gamma))


def as_text(column: str) -> Expression:
    """A number as text."""
    return Expression("text", column)


def filled(column: str) -> Expression:
    """Text, with the empty string in place of NULL."""
    return Expression("filled", column)


def cut(column: str, characters: int) -> Expression:
    """The first characters of a text, with the empty string in place of NULL."""
    return Expression("cut", column, int(characters))


@dataclass(frozen=True)
class Query:
    """A read of one table. `columns` maps output names to columns or expressions.

    With `group_by` (output names) the expressions are aggregated per group. `order_by` names outputs;
    a leading "-" means descending.
    """

    table: str
    columns: tuple[tuple[str, str | Expression], ...]
    where: tuple[Condition, ...] = ()
    group_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None

    def tables(self) -> tuple[str, ...]:
        """Every table that is read, the one of the rows first."""
        return tuple(dict.fromkeys((self.table, *_tables(self.where))))


def _tables(conditions: Sequence[Condition]) -> list[str]:
    found: list[str] = []
    for condition in conditions:
        if isinstance(condition, AnyOf):
            found += _tables(condition.conditions)
        elif isinstance(condition, Exists):
            found += [condition.table, *_tables(condition.where)]
    return found


def query(
    table: str,
    columns: Sequence[str] | Mapping[str, str | Expression],
    where: Sequence[Condition] = (),
    *,
    group_by: Sequence[str] = (),
    order_by: Sequence[str] = (),
    limit: int | None = None,
) -> Query:
    pairs = columns.items() if isinstance(columns, Mapping) else ((name, name) for name in columns)
    return Query(table, tuple(pairs), tuple(where), tuple(group_by), tuple(order_by), limit)


class Dialect(Protocol):
    """What differs between the engines; every text is SQL, except an identifier that goes in."""

    def name(self, identifier: str) -> str: ...
    def bin(self, column: str, seconds: int) -> str: ...
    def value(self, value: Any) -> str:
        """SQL text that stands for a value: a literal or a parameter marker."""
        ...

    def text(self, column: str) -> str: ...
    def contains(self, column: str, part: str) -> str: ...
    def starts_with(self, column: str, start: str) -> str: ...


# The text by which an engine names a table `<layer>/<table>`.
Source = Callable[[str], str]


def render(q: Query, source: Source, dialect: Dialect) -> str:
    """The SELECT statement of a query, in one line."""
    return " ".join(clauses(q, source, dialect))


def clauses(q: Query, source: Source, dialect: Dialect) -> list[str]:
    """The statement's clauses, from SELECT to LIMIT."""
    writer = _Writer(source, dialect)
    expressions = {name: writer.column(spec) for name, spec in q.columns}
    sql = ["SELECT " + ", ".join(f"{text} AS {dialect.name(name)}" for name, text in expressions.items())]
    sql.append(f"FROM {source(q.table)} AS {OUTER}")
    if q.where:
        sql.append("WHERE " + writer.all_of(q.where))
    if q.group_by:
        sql.append("GROUP BY " + ", ".join(expressions[name] for name in q.group_by))
    if q.order_by:
        sql.append("ORDER BY " + ", ".join(_order(name, dialect) for name in q.order_by))
    if q.limit is not None:
        sql.append(f"LIMIT {int(q.limit)}")
    return sql


def _order(name: str, dialect: Dialect) -> str:
    if name.startswith("-"):
        return dialect.name(name[1:]) + " DESC NULLS LAST"
    return dialect.name(name) + " ASC NULLS FIRST"


# Names of the outer table and of a subquery's. Their columns are always qualified, since an output may have the name
# of a column.
OUTER, INNER = "t", "u"


@dataclass(frozen=True)
class _Writer:
    source: Source
    dialect: Dialect
    alias: str = OUTER

    def name(self, column: str) -> str:
        return f"{self.alias}.{self.dialect.name(column)}"

    def column(self, spec: str | Expression) -> str:
        if isinstance(spec, str):
            return self.name(spec)
        column = self.name(spec.column) if spec.column else ""
        when = self.all_of(spec.when) if spec.when else ""
        kept = f"CASE WHEN {when} THEN {column or '1'} END" if when else column
        match spec.kind:
            case "count":
                return f"COUNT({kept})" if when else "COUNT(*)"
            case "distinct":
                return f"COUNT(DISTINCT {kept})"
            case "sum":
                return f"COALESCE(SUM({kept}), 0)"
            case "count_true":
                return f"COALESCE(SUM(CASE WHEN {column} THEN 1 ELSE 0 END), 0)"
            case "bin":
                return self.dialect.bin(column, spec.argument)
            case "bucket":
                cases = " ".join(f"WHEN {column} < {bound} THEN {i}" for i, bound in enumerate(spec.argument))
                return f"CASE {cases} ELSE {len(spec.argument)} END"
            case "log_bucket":
                exponent = f"CEIL(LN(CAST({column} AS DOUBLE)) / LN(CAST({spec.argument!r} AS DOUBLE)))"
                return f"CASE WHEN {column} < 1 THEN 0 ELSE CAST({exponent} AS INT) END"
            case "text":
                return self.dialect.text(column)
            case "filled":
                return f"COALESCE({column}, '')"
            case "cut":
                return f"LEFT(COALESCE({column}, ''), {int(spec.argument)})"
            case _:
                return f"{spec.kind.upper()}({kept})"

    def all_of(self, conditions: Sequence[Condition]) -> str:
        return " AND ".join(self.condition(c) for c in conditions)

    def condition(self, condition: Condition) -> str:
        if isinstance(condition, AnyOf):
            parts = " OR ".join(self.condition(c) for c in condition.conditions)
            return f"({parts})" if parts else "1 = 0"
        if isinstance(condition, Exists):
            inner = replace(self, alias=INNER)
            related = [f"{inner.name(a)} {operator} {self.name(b)}" for a, operator, b in condition.on]
            kept = [inner.condition(c) for c in condition.where]
            where = " AND ".join((*related, *kept))
            return f"EXISTS (SELECT 1 FROM {self.source(condition.table)} AS {INNER} WHERE {where})"
        return self._where(condition)

    def _where(self, where: Where) -> str:
        column = self.column(where.column)
        match where.operator:
            case "in" | "not in":
                values = ", ".join(self.dialect.value(v) for v in where.value)
                none = "1 = 0" if where.operator == "in" else "1 = 1"
                return f"{column} {where.operator.upper()} ({values})" if values else none
            case "contains":
                return self.dialect.contains(column, self.dialect.value(where.value))
            case "starts with":
                return self.dialect.starts_with(column, self.dialect.value(where.value))
            case "is null" | "is not null":
                return f"{column} {where.operator.upper()}"
            case _:
                return f"{column} {where.operator} {self.dialect.value(where.value)}"
