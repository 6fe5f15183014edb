"""Writes rows to the staged tables of a rebuild. Each commit has a number, so a killed rebuild repeats none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from tidemark.contract.expression import column
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.work import ALL, Work
from tidemark.operate.rows import Rows
from tidemark.stream.deliveries import KEY

# By how much a time may differ that was read with another time zone.
_ZONES = timedelta(days=2)


def append(
    staged: Store,
    table: Table,
    rows: Rows,
    commit: Commit,
    *,
    changed: Vectorized | None = None,
    left_out: pa.Table | None = None,
) -> None:
    """Adds rows of the table itself, with columns `changed`, except those with keys in `left_out`."""
    plain = replace(table, columns=tuple(replace(each, of="") for each in table.columns))
    work = Work(validation=changed, appends=[(plain, ALL)], left_out=left_out)
    with rows.processed(work, staged, f"{commit.writer}-{commit.number:05d}") as batch:
        batch.append(staged, plain, ALL, commit)


def append_older(
    staged: Store,
    accepted: Table,
    before: Rows,
    lines: Rows,
    kept: datetime,
    commit: Commit,
    masking: Vectorized | None,
) -> None:
    """Adds the accepted rows `before` whose lines are gone: as they are, or masked. `lines` has all from `kept` on."""
    time = column("event_time")
    near = lines.where(time.is_null() | (time < kept + 2 * _ZONES))
    keys = near.read().select(list(KEY)) if near.few else near.frame().select(*KEY).toArrow()
    older = before.where(time < kept + _ZONES)
    append(staged, accepted, older, commit, changed=masking, left_out=keys)


def put(staged: Store, table: Table, rows: pa.Table, commit: Commit) -> None:
    """Stages the rows in place of those that are staged."""
    staged.ensure(table)
    staged.replace(table, lambda: iter((rows,)), commit)


def number_all(staged: Store, tables: Sequence[Table], commit: Commit) -> None:
    """Gives the tables that got no rows the commit's number, too, such as silver.rejected."""
    for table in tables:
        if staged.committed(table, commit.writer) < commit.number:
            staged.append_arrow(table, table.arrow_schema.empty_table(), commit)
