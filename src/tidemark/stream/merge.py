"""Merges a batch's partial rows into a table."""

from __future__ import annotations

import pyarrow as pa

from tidemark.contract.aggregation import Aggregation
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change, Table


def merge_into(store: Store, table: Table, made: Aggregation, partials: pa.Table, commit: Commit) -> None:
    """Merges partial rows with the affected rows of the table, in one commit."""
    touched = made.touched(partials)
    if touched or partials.num_rows:
        change = made.combine(store.read(table, touched), partials)
    else:  # the batch number must be committed nevertheless
        change = Change(table.arrow_schema.empty_table())
    store.upsert(table, change, commit)
