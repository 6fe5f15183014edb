"""Rejected lines that the present rules accept: a pipeline names their number at its first start with other rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.engine.arrays import Vectorized
from tidemark.home import Home
from tidemark.operate.redelivery import TWICE

# Of a larger quarantine only the newest lines are examined, which takes some seconds.
NEWEST_LINES = 100_000
_BATCH_LINES = 10_000


@dataclass(frozen=True)
class Readable:
    """How many of the examined rejected lines are accepted now; `all`: every line of the quarantine was examined."""

    accepted: int
    examined: int
    all: bool

    def __str__(self) -> str:
        lines = (
            f"{self.examined:,} rejected lines" if self.all else f"newest {self.examined:,} rejected lines"
        )
        return (
            f"{self.accepted:,} of the {lines} can be read by the present rules."
            " `tidemark rebuild silver.requests` moves them to silver.requests"
        )


def readable(home: Home, validation: Vectorized, before: datetime) -> Readable:
    """Validates the lines that batches before a time have rejected once more. Without the headers of their records,
    which silver.rejected does not have, some lines are not read that a rebuild reads. Raises TableError."""
    rejected, since, whole = home.graph.rejected, *_since(home, before)
    if since is None:
        return Readable(0, 0, True)
    columns = ["site", "value", "kafka_timestamp", "reasons"]
    lines = home.store.read(rejected, [[("rejected_at", ">=", since), ("rejected_at", "<", before)]], columns)
    once = pc.invert(pc.is_in(pc.list_element(lines["reasons"], 0), pa.array([TWICE])))
    lines = lines.filter(once).slice(0, NEWEST_LINES).drop_columns("reasons")
    for name in set(validation.inputs) - set(lines.column_names):
        lines = lines.append_column(name, pa.nulls(lines.num_rows, pa.string()))
    accepted = sum(int(np.sum(validation.add(batch)["accepted"].to_numpy())) for batch in _batches(lines))
    return Readable(accepted, lines.num_rows, whole)


def _since(home: Home, before: datetime) -> tuple[datetime | None, bool]:
    """When the first of the batches began that have rejected the newest lines; None without rejected lines. And whether
    no batch before has rejected any."""
    rows = home.store.read(ACCOUNTS, [[("started_at", "<", before)]], ["started_at", "rejected"])
    batches = rows.filter(pc.greater(rows["rejected"], 0)).sort_by([("started_at", "descending")])
    if not batches.num_rows:
        return None, True
    total = np.cumsum(batches["rejected"].to_numpy())
    last = min(int(np.searchsorted(total, NEWEST_LINES)), batches.num_rows - 1)
    return batches["started_at"][last].as_py(), last == batches.num_rows - 1


def _batches(lines: pa.Table) -> Iterator[pa.Table]:
    return (lines.slice(start, _BATCH_LINES) for start in range(0, lines.num_rows, _BATCH_LINES))
