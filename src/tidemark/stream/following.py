"""Tables made of a table whose rows change: each takes the change between two versions of its source.

The version that a table has is recorded in its commits, with the way its rows are made. If that way has changed, or if
the log or a file of the change is gone, the table is recomputed from the newest version. So a rebuild of the source, a
restored savepoint, a repair or a new definition needs nothing else.

A process that has just changed the source hands the change over, and no file of it is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain
from types import MappingProxyType
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract import table as contract
from tidemark.contract.aggregation import Revisable, Step
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.groups import semi_join
from tidemark.home import Home
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream.changes import Change, Changes, FileChanges, Known
from tidemark.stream.table_state import recorded

# The writer of the number that identifies the definition of all rows of a table.
_DEFINITION = "tidemark/definition"
_HOUR = 3600
log = logging.getLogger("tidemark.stream")


@dataclass(frozen=True)
class Follower:
    """A table that `follows`, how it is made, and its source."""

    table: Table
    aggregation: Revisable
    source: Table

    @property
    def definition(self) -> int:
        """A number that changes with the way in which the rows are made."""
        what = [
            dict(self.aggregation.identity),
            list(self.aggregation.key),
            self.aggregation.needs,
            self.table.column_names,
        ]
        return int.from_bytes(blake2b(json.dumps(what).encode(), digest_size=7).digest())

    def step(self, existing: pa.Table, change: contract.Change) -> Step:
        """The step of a change of the source; `existing` are all of its rows that the change may replace or delete."""
        key, needs = list(self.source.key), list(self.aggregation.needs)
        keys = change.rows.select(key)
        if change.deleted is not None:
            keys = pa.concat_tables([keys, change.deleted.select(key).cast(keys.schema)])
        removed = semi_join(existing, keys, key)
        return Step(
            self.aggregation.partial(removed.select(needs)),
            self.aggregation.partial(change.rows.select(needs)),
        )


def followers_of(home: Home) -> tuple[Follower, ...]:
    """The tables of a home that follow others, as its settings make them."""
    return tuple(
        Follower(table, cast(Revisable, table.aggregation(home.settings.meaning)), home.graph[table.reads])
        for table in home.graph.following
        if table.aggregation
    )


def catch_up(
    followers: Sequence[Follower],
    home: Home,
    *,
    recomputed: Sequence[str] = (),
    known: Mapping[str, Known] = MappingProxyType({}),
) -> list[Table]:
    """Brings each table to the newest version of its source; the tables named in `recomputed` are made from all of its
    rows. Returns the tables that were behind. `known` are, by table, the steps of commits of its source.

    The caller ensures that nobody else writes to the tables or their sources.
    """
    store, behind = home.store, []
    for follower in followers:
        table, source = follower.table, follower.source
        changes = changes_of(home, source)
        newest, writer = store.version(source), f"{source.name}/{store.id(source)}"
        definition = store.committed(table, _DEFINITION)
        as_today = definition == follower.definition
        has = store.committed(table, writer) if as_today and table.name not in recomputed else -1
        if has == newest:
            continue
        behind.append(table)
        also = ((_DEFINITION, follower.definition),)
        change = None
        if 0 <= has < newest:
            change = changes.between(has, newest, follower.aggregation, known.get(table.name, {}))
        if change is None:
            if definition != -1:  # it is no new table
                log.info("%s is made anew of version %d of %s", table.name, newest, source.name)
            _recompute(follower, changes, store, Commit(writer, newest, also), _complete_from(home, source))
        elif change.steps:
            _revise(follower, changes, store, change, Commit(writer, change.version, also))
    return behind


def stage(
    followers: Sequence[Follower], names: Sequence[str], home: Home, staging: Lakehouse, staged: Store
) -> list[Table]:
    """Makes tables in `staging`, and returns them: those whose source is staged, and the named ones from `home`."""
    tables = []
    for follower in followers:
        there = staged.exists(follower.source)
        if there or follower.table.name in names:
            staged.ensure(follower.table)
            changes = changes_of(replace(home, lakehouse=staging) if there else home, follower.source)
            _recompute(follower, changes, staged, Commit("stage", 0))
            tables.append(follower.table)
    return tables


def changes_of(home: Home, source: Table) -> Changes:
    """The changes of a table, read from its files where this process reaches them, else by Spark."""
    if home.lakehouse.can.files:
        return FileChanges(home.lakehouse, source)
    from tidemark.stream.feed_changes import FeedChanges  # not every installation has Spark

    return FeedChanges(home.spark, home.lakehouse, source)


def _complete_from(home: Home, source: Table) -> datetime | None:
    """The start of the first whole hour from which on the home has all sessions; None if it has all."""
    tables = [source, *(table for table in home.tables if table.lines == "accepted")]
    kept = [since for each in tables if (since := recorded(home.lakehouse, each.name).kept_since)]
    if not kept:
        return None
    moment = max(kept).timestamp() + home.settings.meaning.session_gap_seconds
    return datetime.fromtimestamp(-(-moment // _HOUR) * _HOUR, UTC)


def _recompute(
    follower: Follower, changes: Changes, store: Store, commit: Commit, since: datetime | None = None
) -> None:
    """Replaces the table's rows, or those from `since` on, by rows of the source's newest version, in one commit."""
    table, aggregation = follower.table, follower.aggregation
    empty = table.arrow_schema.empty_table()
    older = store.read(table, [[(table.time, "<", since)]]) if since and store.exists(table) else empty

    def rows() -> Iterator[pa.Table]:
        rows_of_parts = (aggregation.combine(empty, part).rows for part in changes.parts(aggregation))
        if since is None:
            return rows_of_parts
        return chain(
            [older], (part.filter(pc.greater_equal(part[table.time], since)) for part in rows_of_parts)
        )

    store.replace(table, rows, commit)


def _revise(follower: Follower, changes: Changes, store: Store, change: Change, commit: Commit) -> None:
    table, aggregation = follower.table, follower.aggregation
    difference = aggregation.difference(change.steps)
    touched = aggregation.touched(difference.changed)
    existing = store.read(table, touched) if touched else table.arrow_schema.empty_table()
    recomputed = changes.within(difference.lost[aggregation.start], aggregation)
    store.upsert(table, aggregation.revise(existing, difference, recomputed), commit)
