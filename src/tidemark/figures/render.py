"""Queries as SQL. The engines share what is used here except for what a `Dialect` holds.

Column names come from this program; values always go through the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidemark.figures.dialects import Dialect
from tidemark.figures.query import AllOf, AnyOf, Condition, Exists, Expression, HasElement, Query, Where
from tidemark.figures.zones import Shifts

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
        groups = [expressions[name] for name in q.group_by]
        alone = ", ".join(f"({text})" for text in groups)
        sql.append(f"GROUP BY GROUPING SETS ({alone})" if q.apart else "GROUP BY " + ", ".join(groups))
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
    # The column whose fields are meant, if not the row's columns.
    struct: str = ""

    def name(self, column: str) -> str:
        if self.struct:
            return f"{self.alias}.{self.dialect.name(self.struct)}['{column}']"
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
            case "wall_bin":
                return self._wall_bin(column, *spec.argument)
            case "bucket":
                cases = " ".join(f"WHEN {column} < {bound} THEN {i}" for i, bound in enumerate(spec.argument))
                return f"CASE {cases} ELSE {len(spec.argument)} END"
            case "log_bucket":
                exponent = f"CEIL(LN(CAST({column} AS DOUBLE)) / LN(CAST({spec.argument!r} AS DOUBLE)))"
                return f"CASE WHEN {column} < 1 THEN 0 ELSE CAST({exponent} AS INT) END"
            case "later":
                return self.dialect.later(column, spec.argument)
            case "joined":
                return self.dialect.joined(column, self.dialect.value(spec.argument))
            case "text":
                return self.dialect.text(column)
            case "filled":
                return f"COALESCE({column}, '')"
            case "lowered":
                return f"LOWER(COALESCE({column}, ''))"
            case "prefix":
                return f"LEFT(COALESCE({column}, ''), {int(spec.argument)})"
            case _:
                return f"{spec.kind.upper()}({kept})"

    def _wall_bin(self, column: str, seconds: int, shifts: Shifts) -> str:
        bins = [self.dialect.bin(self.dialect.later(column, offset), seconds) for offset in shifts.offsets]
        if not shifts.until:
            return bins[0]
        cases = " ".join(
            f"WHEN {column} < {self.dialect.value(until)} THEN {text}"
            for until, text in zip(shifts.until, bins, strict=False)
        )
        return f"CASE {cases} ELSE {bins[-1]} END"

    def all_of(self, conditions: Sequence[Condition]) -> str:
        return " AND ".join(self.condition(c) for c in conditions)

    def condition(self, condition: Condition) -> str:
        if isinstance(condition, AnyOf):
            parts = " OR ".join(self.condition(c) for c in condition.conditions)
            return f"({parts})" if parts else "1 = 0"
        if isinstance(condition, AllOf):
            return f"({self.all_of(condition.conditions)})"
        if isinstance(condition, Exists):
            inner = replace(self, alias=INNER)
            related = [f"{inner.name(a)} {operator} {self.column(b)}" for a, operator, b in condition.on]
            kept = [inner.condition(c) for c in condition.where]
            where = " AND ".join((*related, *kept))
            return f"EXISTS (SELECT 1 FROM {self.source(condition.table)} AS {INNER} WHERE {where})"
        if isinstance(condition, HasElement):
            return self._has_element(condition)
        return self._where(condition)

    def _has_element(self, condition: HasElement) -> str:
        inner = replace(self, alias=INNER)
        key, element = self.dialect.name(condition.key), self.dialect.name("element")
        each = self.dialect.each(inner.name(condition.elements))
        rows = f"SELECT {inner.name(condition.key)} AS {key}, {each} AS {element}"
        rows += f" FROM {self.source(condition.table)} AS {INNER}"
        if condition.within:
            rows += " WHERE " + inner.all_of(condition.within)
        kept = replace(inner, struct="element").all_of(condition.where)
        keys = f"SELECT {inner.name(condition.key)} FROM ({rows}) AS {INNER} WHERE {kept}"
        return f"{self.name(condition.key)} IN ({keys})"

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
            case "matches":
                return self.dialect.matches(column, self.dialect.value(where.value))
            case "is null" | "is not null":
                return f"{column} {where.operator.upper()}"
            case _:
                return f"{column} {where.operator} {self.dialect.value(where.value)}"
