"""Data files of tables, written by any writer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

# Spark writes timestamps in a form without a unit.
PARQUET = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
_ROWS_OF_FILE = 100_000


def rows_of_file(system: fs.FileSystem, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a data file, in parts; columns that it lacks are NULL. Raises FileNotFoundError."""
    file = ds.FileSystemDataset([PARQUET.make_fragment(path, system)], schema, PARQUET, system)
    for batch in file.to_batches(batch_size=_ROWS_OF_FILE, batch_readahead=1, fragment_readahead=1):
        yield pa.Table.from_batches([batch])
