"""One description of a query, whichever engine runs it; render.py makes SQL of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from tidemark.figures.zones import Shifts

Operator = Literal[
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "contains",
    "starts with",
    "matches",
    "is null",
    "is not null",
]
Kind = Literal[
    "count",
    "distinct",
    "sum",
    "min",
    "max",
    "median",
    "count_true",
    "bin",
    "wall_bin",
    "bucket",
    "log_bucket",
    "text",
    "filled",
    "lowered",
    "prefix",
    "later",
    "joined",
]
AGGREGATES: frozenset[Kind] = frozenset({"count", "distinct", "sum", "min", "max", "median", "count_true"})


@dataclass(frozen=True)
class Where:
    """A row filter: `column operator value`; for `in` and `not in`, value is a tuple, which may be empty.

    `matches` takes a regular expression. As in SQL, no operator but `is null` keeps a row whose column is NULL.
    """

    column: str | Expression
    operator: Operator
    value: Any = None


@dataclass(frozen=True)
class AnyOf:
    """Keeps the rows that one of the conditions keeps; none where there are no conditions."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class AllOf:
    """Keeps the rows that all of the conditions keep."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Exists:
    """Keeps the rows for which `table` has a row: one that `where` keeps and that relates to the row by every
    `on`, (column of `table`, operator, column of the row)."""

    table: str
    on: Related
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class HasElement:
    """Keeps the rows whose `key` is that of a row of `table` which `within` keeps, and in whose list `elements` an
    element has fields that `where` keeps."""

    key: str
    table: str
    elements: str
    where: tuple[Condition, ...]
    within: tuple[Condition, ...] = ()


# How rows of two tables relate: column of the other table, operator, column of the row.
Related: TypeAlias = tuple[tuple[str, Literal["=", "<", "<=", ">="], "str | Expression"], ...]
# Output names, each with a column or an expression.
Columns: TypeAlias = "dict[str, str | Expression]"
Condition: TypeAlias = Where | AnyOf | AllOf | Exists | HasElement


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


def wall_bin(column: str, seconds: int, shifts: Shifts) -> Expression:
    """Start of the bin of `seconds` on a zone's clocks, as if these showed UTC."""
    return Expression("wall_bin", column, (int(seconds), shifts))


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


def lowered(column: str) -> Expression:
    """Text in lower case, with the empty string in place of NULL."""
    return Expression("lowered", column)


def prefix(column: str, characters: int) -> Expression:
    """The first characters of a text, with the empty string in place of NULL."""
    return Expression("prefix", column, int(characters))


def later(column: str, seconds: int) -> Expression:
    """A time that many seconds later."""
    return Expression("later", column, int(seconds))


def joined(column: str, separator: str) -> Expression:
    """A list of texts as one text."""
    return Expression("joined", column, separator)


@dataclass(frozen=True)
class Query:
    """A read of one table. `columns` maps output names to columns or expressions.

    `counted`: the rows are only counted, and shown to nobody, so they may have what a role may not see.
    With `group_by` (output names) the expressions are aggregated per group; `apart` groups by each of these outputs
    alone, and the others are NULL. `order_by` names outputs; a leading "-" means descending.
    """

    table: str
    columns: tuple[tuple[str, str | Expression], ...]
    where: tuple[Condition, ...] = ()
    group_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    apart: bool = False
    counted: bool = False

    def tables(self) -> tuple[str, ...]:
        """Every table that is read, the one of the rows first."""
        others = [each.table for each in every(self.where) if isinstance(each, Exists | HasElement)]
        return tuple(dict.fromkeys((self.table, *others)))


def every(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """The conditions, and those within them."""
    for condition in conditions:
        yield condition
        match condition:
            case AnyOf() | AllOf():
                yield from every(condition.conditions)
            case Exists():
                yield from every(condition.where)
            case HasElement():
                yield from every((*condition.where, *condition.within))


def query(
    table: str,
    columns: Sequence[str] | Mapping[str, str | Expression],
    where: Sequence[Condition] = (),
    *,
    group_by: Sequence[str] = (),
    order_by: Sequence[str] = (),
    limit: int | None = None,
    apart: bool = False,
    counted: bool = False,
) -> Query:
    pairs = columns.items() if isinstance(columns, Mapping) else ((name, name) for name in columns)
    return Query(table, tuple(pairs), tuple(where), tuple(group_by), tuple(order_by), limit, apart, counted)
