"""Sizes of tables, from their logs, and which rows are read in this process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from tidemark.contract.table import Table
from tidemark.errors import TidemarkError
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

# So many rows, and bytes in files, are few: a Spark job on them is mostly planning.
FEW_ROWS = 100_000
FEW_BYTES = 64 << 20


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


def size_of(lakehouse: Lakehouse, table: Table, version: int | None = None) -> tuple[float, float]:
    """Rows and bytes of a table's version (None: the newest); infinite if this process cannot read the table."""
    if lakehouse.can.files is None:
        return math.inf, math.inf
    return DeltaRsStore(lakehouse).size(table, version)


def are_few(sizes: Iterable[tuple[float, float]]) -> bool:
    """Whether rows of these sizes are read in this process."""
    every = list(sizes)
    return sum(rows for rows, _ in every) <= FEW_ROWS and sum(size for _, size in every) <= FEW_BYTES
