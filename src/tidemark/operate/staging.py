"""Writes rows to the staged tables of a rebuild. Each commit has a number, so a killed rebuild repeats none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.engine.work import ALL, Work
from tidemark.operate.rows import Rows


def append(staged: Store, table: Table, rows: Rows, commit: Commit) -> None:
    """Adds rows of the table itself."""
    plain = replace(table, columns=tuple(replace(column, of="") for column in table.columns))
    with rows.processed(
        Work(appends=[(plain, ALL)]), staged, f"{commit.writer}-{commit.number:05d}"
    ) as batch:
        batch.append(staged, plain, ALL, commit)


def put(staged: Store, table: Table, rows: pa.Table, commit: Commit) -> None:
    """Stages the rows in place of those that are staged."""
    staged.ensure(table)
    staged.replace(table, lambda: iter((rows,)), commit)


def number_all(staged: Store, tables: Sequence[Table], commit: Commit) -> None:
    """Gives the tables that got no rows the commit's number, too, such as silver.rejected."""
    for table in tables:
        if staged.committed(table, commit.writer) < commit.number:
            staged.append_arrow(table, table.arrow_schema.empty_table(), commit)
