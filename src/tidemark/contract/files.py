"""Writes rows into new files of a table, which count once they are committed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.contract.store import DataFile, Directory
from tidemark.contract.table import Table

# Writers that record the least and the greatest value of each column shorten them to this: a file with one large sketch
# would have it three times.
STATISTICS_BYTES = 64


class TableFile:
    """A new file of rows of one table, whose name contains `label`. It is begun with the first rows."""

    def __init__(self, table: Table, directory: Directory, label: str) -> None:
        self._table = table
        self._directory = directory
        self._path = f"part-{label}-{uuid.uuid4().hex}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._nulls = dict.fromkeys(table.timed, 0)
        self._bounds: dict[str, tuple[datetime, datetime]] = {}

    def write(self, rows: pa.Table) -> None:
        """Adds rows with the table's columns; texts may be dictionary-encoded."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = self._directory.writer(self._path, rows.schema)
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        for name in self._table.timed:
            self._nulls[name] += rows[name].null_count
            least, most = (bound.as_py() for bound in pc.min_max(rows[name]).values())
            if least is not None:
                known = self._bounds.get(name, (least, most))
                self._bounds[name] = min(known[0], least), max(known[1], most)

    def close(self) -> Iterator[DataFile]:
        """Completes the file, and returns it for the commit; nothing without rows."""
        if self._writer is None:
            return
        self._writer.close()
        stats = {
            "numRecords": self._rows,
            "minValues": {name: _iso(least) for name, (least, _) in self._bounds.items()},
            "maxValues": {name: _iso(most) for name, (_, most) in self._bounds.items()},
            "nullCount": self._nulls,
        }
        yield DataFile(self._path, self._directory.size(self._path), self._rows, json.dumps(stats))


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
