"""How the tables of a home are made of each other, as the tables declare it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.table import Table
from tidemark.errors import TableError


@dataclass(frozen=True)
class Graph:
    """The tables of a home, by their place on the way of a line.

    The flow `requests` reads the topic, appends to the tables with a row per line (`appends`) and commits those of
    `now`. The flow `activity` streams `accepted` and commits the tables of `later`. Those of `following` are made of
    versions of these. The tables of a job are none of these.
    """

    tables: tuple[Table, ...]

    def __getitem__(self, name: str) -> Table:
        """The table of a name. Raises TableError."""
        for table in self.tables:
            if table.name == name:
                return table
        raise TableError(f"there is no table {name}", f"The tables are {', '.join(self.names)}.")

    @property
    def names(self) -> list[str]:
        return [table.name for table in self.tables]

    @property
    def by_name(self) -> dict[str, Table]:
        return {table.name: table for table in self.tables}

    @cached_property
    def appends(self) -> tuple[Table, ...]:
        """The tables with a row per line, or per accepted or rejected line."""
        return tuple(table for table in self.tables if table.lines)

    @property
    def lines(self) -> Table:
        """The table of all lines."""
        return self._of_lines("all")

    @property
    def accepted(self) -> Table:
        """The table of the accepted lines, which the flow `activity` streams."""
        return self._of_lines("accepted")

    @property
    def rejected(self) -> Table:
        """The table of the rejected lines."""
        return self._of_lines("rejected")

    @cached_property
    def derived(self) -> tuple[Table, ...]:
        """The tables that are made of accepted lines."""
        return tuple(table for table in self.tables if table.aggregation and not table.follows)

    @property
    def now(self) -> tuple[Table, ...]:
        """The tables made of accepted lines in the batch that reads these."""
        return tuple(table for table in self.derived if table.now)

    @property
    def later(self) -> tuple[Table, ...]:
        """The tables that the flow `activity` makes of accepted lines."""
        return tuple(table for table in self.derived if not table.now)

    @cached_property
    def following(self) -> tuple[Table, ...]:
        """The tables made of tables whose rows change."""
        return tuple(table for table in self.tables if table.follows)

    @property
    def sources(self) -> tuple[Table, ...]:
        """The tables of which others are made again: those with a row per line, and those that others follow."""
        followed = {table.reads for table in self.following}
        return tuple(table for table in self.tables if table.lines or table.name in followed)

    @property
    def after_accepted(self) -> tuple[Table, ...]:
        """The tables that are made of `accepted` again if the checkpoint of the flow `activity` is removed."""
        return (*self.later, *self.following)

    @property
    def patient(self) -> tuple[Table, ...]:
        """The tables of `after_accepted`, also of `plain` tables: those that only patient batches commit."""
        accepted = {table.name for table in self.appends if table.lines == "accepted"}
        made = (table for table in self.tables if table.kind == "upsert" and not table.now)
        return tuple(table for table in made if accepted and (table.follows or table.reads in accepted))

    @property
    def of_flows(self) -> tuple[Table, ...]:
        """The tables that the flows commit, in the order of their dependence."""
        return (*self.appends, *self.now, SITES, *self.after_accepted, ACCOUNTS)

    @property
    def rebuildable(self) -> list[str]:
        """Names of the tables that are made of others."""
        return [
            table.name
            for table in self.tables
            if table.aggregation or table.lines in ("accepted", "rejected")
        ]

    @property
    def visited(self) -> tuple[Table, ...]:
        """The tables with rows of visitors, other than lines."""
        return tuple(t for t in self.tables if not t.lines and "visitor_id" in t.column_names)

    @property
    def plain(self) -> Graph:
        """The same tables without functions, which can be sent to another process."""
        return replace(self, tables=tuple(table.plain for table in self.tables))

    def _of_lines(self, which: str) -> Table:
        return next(table for table in self.appends if table.lines == which)
