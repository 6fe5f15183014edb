"""Merges a batch's partial rows into a table."""

from __future__ import annotations

import pyarrow as pa

from tidemark.contract.aggregation import Aggregation
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change, Table


def merge_into(
    store: Store, table: Table, aggregation: Aggregation, partials: pa.Table, commit: Commit
) -> tuple[pa.Table, Change]:
    """Merges partial rows with the affected rows of the table, in one commit. Returns those rows and their change."""
    existing = table.arrow_schema.empty_table()
    change = Change(existing)
    touched = aggregation.touched(partials)
    if touched or partials.num_rows:
        existing = store.read(table, touched)
        change = aggregation.combine(existing, partials)
    if existing.num_rows:
        store.upsert(table, change, commit)
    else:
        # None of the keys is in the table: an append takes a fraction of a merge's time. Without rows it commits the
        # batch number.
        store.append_arrow(table, change.rows, commit)
    return existing, change
