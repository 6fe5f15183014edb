"""Which rows are read in this process: a Spark job on few rows is mostly planning."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tidemark.contract.table import Table
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse

# So many rows, and bytes in files, are few.
FEW_ROWS = 100_000
FEW_BYTES = 64 << 20


def size_of(lakehouse: Lakehouse, table: Table, version: int | None = None) -> tuple[float, float]:
    """Rows and bytes of a table's version (None: the newest); infinite if this process cannot read the table."""
    if lakehouse.can.files is None:
        return math.inf, math.inf
    return DeltaRsStore(lakehouse).size(table, version)


def are_few(sizes: Iterable[tuple[float, float]]) -> bool:
    """Whether rows of these sizes are read in this process."""
    every = list(sizes)
    return sum(rows for rows, _ in every) <= FEW_ROWS and sum(size for _, size in every) <= FEW_BYTES
