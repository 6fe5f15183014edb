"""The layer through which logged-in users read: it adds their sites to every query, and refuses what their role
may not see. Nothing above it has to think of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemark.figures.query import (
    AGGREGATES,
    AllOf,
    AnyOf,
    Condition,
    Exists,
    Expression,
    HasElement,
    Query,
    Where,
    every,
)
from tidemark.figures.reader import Reader, ReadError, Through
from tidemark.figures.right import EVERYTHING, Right

if TYPE_CHECKING:
    import pyarrow as pa

# Columns by which one person can be known.
PERSONAL = frozenset({"client_ip", "visitor_id", "session_id", "user_agent", "remote_user"})
# Tables with a row for each request, session or visitor.
_OF_PERSONS = ("silver/", "bronze/")
# Their column of raw lines.
_LINE = "value"
_OF_ADMINS = frozenset({"quality/access"})
# What people of some sites may read of tables about all sites: how complete they are, and how fresh.
_OF_ALL_SITES: Mapping[str, frozenset[str]] = {
    "quality/tables": frozenset({"table", "package", "complete", "done", "total"}),
    "quality/progress": frozenset({"flow", "recorded_at"}),
    "quality/accounts": frozenset({"flow", "batch_id", "started_at", "committed_at"}),
}


class ForbiddenError(ReadError):
    """A role may not see this."""


@dataclass(frozen=True)
class Permitted(Through):
    """A `Reader` of what a right allows. Every query raises ForbiddenError where it does not.

    `label` names the right, too, so that what is remembered for one right answers nobody with another.
    """

    right: Right
    _sited: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @property
    def label(self) -> str:
        return f"{self.reader.label} ({self.right.label})"

    def arrow(self, q: Query) -> pa.Table:
        return self.reader.arrow(self.permitted(q))

    def coded(self, q: Query, names: Sequence[str]) -> pa.RecordBatchReader:
        # These rows are what figures walk through; they are shown to nobody.
        return self.reader.coded(self.permitted(replace(q, counted=True)), names)

    def permitted(self, q: Query) -> Query:
        """The query with the sites of the right in each of its tables. Raises ForbiddenError."""
        for table in q.tables():
            if table in _OF_ADMINS and not self.right.at_least("admin"):
                raise ForbiddenError("Only admins see the record of access")
        if not self.right.at_least("analyst") and not q.counted:
            self._require_nobody_shown(q)
        if self.right.sites is None:
            return q
        columns = tuple((name, self._expression(column)) for name, column in q.columns)
        return replace(q, columns=columns, where=(*self._all(q.where), *self._sites_of(q.table, q)))

    def sees(self, table: str) -> bool:
        """Whether the right allows any part of a table. Raises MissingTableError or ReadError."""
        if table in _OF_ADMINS and not self.right.at_least("admin"):
            return False
        return self.right.sites is None or table in _OF_ALL_SITES or self._has_sites(table)

    def _require_nobody_shown(self, q: Query) -> None:
        columns = [column for _, column in q.columns]
        of_persons = q.table.startswith(_OF_PERSONS)
        personal = PERSONAL | ({_LINE} if of_persons else set())
        # A condition on a session id reveals nothing to users who cannot read the ids.
        known = {_shown(column) for column in columns} | (_compared_columns(q) - {"session_id"})
        grouped = bool(q.group_by) or all(_is_aggregate(column) for column in columns)
        if known & personal or (of_persons and not grouped):
            raise ForbiddenError("Only analysts see single requests, sessions and visitors")

    def _sites_of(self, table: str, q: Query | None = None) -> tuple[Condition, ...]:
        """The condition that keeps the sites of a table. Raises ForbiddenError for a table of all sites."""
        sites = tuple(sorted(self.right.sites or ()))
        if self._has_sites(table):
            return (Where("site", "=", sites[0]) if len(sites) == 1 else Where("site", "in", sites),)
        read = {_shown(column) for _, column in q.columns} | _compared_columns(q) if q else {""}
        if read <= _OF_ALL_SITES.get(table, frozenset()):
            return ()
        raise ForbiddenError("Only those who may see all sites see this")

    def _has_sites(self, table: str) -> bool:
        """Whether a row of the table is about one site."""
        if table not in self._sited:
            self._sited[table] = "site" in self.reader.contract(table).columns
        return self._sited[table]

    def _all(self, conditions: Sequence[Condition]) -> tuple[Condition, ...]:
        return tuple(map(self._within, conditions))

    def _within(self, condition: Condition) -> Condition:
        match condition:
            case AnyOf() | AllOf():
                return replace(condition, conditions=self._all(condition.conditions))
            case Exists():
                return replace(
                    condition, where=(*self._all(condition.where), *self._sites_of(condition.table))
                )
            case HasElement():
                return replace(
                    condition, within=(*self._all(condition.within), *self._sites_of(condition.table))
                )
            case Where():
                return replace(condition, column=self._expression(condition.column))

    def _expression(self, column: str | Expression) -> str | Expression:
        if isinstance(column, Expression) and column.when:
            return replace(column, when=self._all(column.when))
        return column


def permitted(reader: Reader, right: Right) -> Reader:
    """The reader of what a right allows."""
    return reader if right == EVERYTHING else Permitted(reader, right)


def is_restricted(reader: Reader) -> bool:
    """Whether it reads what a right allows, itself or through another one."""
    return isinstance(reader, Permitted) or (isinstance(reader, Through) and is_restricted(reader.reader))


def _is_aggregate(column: str | Expression) -> bool:
    return isinstance(column, Expression) and column.kind in AGGREGATES


def _shown(column: str | Expression) -> str:
    """The column whose values come out; empty where only their number does."""
    if isinstance(column, str):
        return column
    return "" if column.kind in ("count", "distinct") else column.column


def _compared_columns(q: Query) -> set[str]:
    """The columns that conditions compare with values."""
    when = [each for _, column in q.columns if isinstance(column, Expression) for each in column.when]
    columns = [each.column for each in every((*q.where, *when)) if isinstance(each, Where)]
    return {column if isinstance(column, str) else column.column for column in columns}
