"""Sizes of tables, from their logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from tidemark.contract.table import Table
from tidemark.errors import TidemarkError
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse


def sizes(lakehouse: Lakehouse, tables: Sequence[Table]) -> Callable[[], dict[str, tuple[int, int]]]:
    """A function that returns rows and bytes of each table's newest version; empty if delta-rs does not reach
    the tables. Tables that cannot be read now are left out."""
    if lakehouse.can.files is None:
        return dict
    store, lock = DeltaRsStore(lakehouse), threading.Lock()
    known: dict[str, tuple[int, tuple[int, int]]] = {}

    def measure(table: Table) -> tuple[int, int]:
        handle = store.newest(table)
        version = handle.version()
        if table.name not in known or known[table.name][0] != version:
            files = pa.table(handle.get_add_actions(flatten=True))
            known[table.name] = version, (_total(files, "num_records"), _total(files, "size_bytes"))
        return known[table.name][1]

    def all_sizes() -> dict[str, tuple[int, int]]:
        sizes_now = {}
        with lock:
            for table in tables:
                with suppress(TidemarkError, DeltaError, OSError):
                    sizes_now[table.name] = measure(table)
        return sizes_now

    return all_sizes


def _total(files: pa.Table, column: str) -> int:
    return (pc.sum(files[column]).as_py() or 0) if column in files.column_names else 0
