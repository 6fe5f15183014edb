"""Writes the rows of a table or a report to a file of a directory or an object store, some rows at a time.

A file appears when it is complete: it is written beside its place and renamed, or uploaded from a temporary file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tidemark.errors import InputError
from tidemark.figures import conditions, silver
from tidemark.figures.permitted import Permitted
from tidemark.figures.query import Condition, Query, query
from tidemark.figures.reader import Reader, plain
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import require_site
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, SelectionError
from tidemark.figures.text import FORMULA, shown
from tidemark.objects.faults import explained
from tidemark.objects.store import is_url, open_store

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["parquet", "csv", "jsonl"]
# Told how many rows were written since the last call.
Progress = Callable[[int], None]

# A store is silent until it has all bytes of a part.
_UPLOAD_SECONDS = 300


def rows_of(reader: Reader, table: str, selection: Selection) -> pa.RecordBatchReader:
    """The rows of a table `layer.name` that a selection keeps: by the table's time, and by filters whose fields are its
    columns; of silver.requests and silver.sessions by all filters. Raises SelectionError, also for a site that is not
    there, MissingTableError and ReadError, ForbiddenError among them."""
    name = table.replace(".", "/", 1)
    contract = reader.contract(name)
    require_site(Rows(reader), selection.site)
    where = _where(reader, name, selection, set(contract.columns), contract.properties.get("time", ""))
    return _batches(reader, query(name, list(contract.columns), where))


def of_frame(frame: pd.DataFrame) -> pa.RecordBatchReader:
    """The rows of a report's table."""
    texts = {str(name): frame[name].astype(str) for name in frame if frame[name].map(type).nunique() > 1}
    return pa.Table.from_pandas(frame.assign(**texts), preserve_index=False).to_reader()


def _batches(reader: Reader, q: Query) -> pa.RecordBatchReader:
    if isinstance(reader, Permitted):
        return _batches(reader.reader, reader.permitted(q))
    return reader.batches(q) if isinstance(reader, DeltaReader) else plain(reader.arrow(q)).to_reader()


def _where(
    reader: Reader, table: str, selection: Selection, columns: set[str], time: str
) -> tuple[Condition, ...]:
    if table == silver.REQUESTS:
        return conditions.of_lines(selection)
    if table == silver.SESSIONS:
        return conditions.of_sessions(selection, Rows(reader))
    if unknown := sorted(selection.fields() - columns):
        raise SelectionError(f"{table} has no column {unknown[0]!r} to filter by", "Leave the filter out.")
    if selection.site is not None and "site" not in columns:
        raise SelectionError(f"{table} is about all sites", "Leave --site out.")
    if (selection.start or selection.end) and not time:
        raise SelectionError(f"the rows of {table} have no time", "Leave --from and --to out.")
    return (*conditions.within(selection, time), *conditions.passing(selection.filters))


def export(
    rows: pa.RecordBatchReader,
    name: str,
    target: str,
    form: Format,
    *,
    overwrite: bool = False,
    endpoint: str = "",
    progress: Progress = lambda rows: None,
) -> str:
    """Writes rows to the file `name` of a directory or of the URL of an object store, `endpoint` as of
    `objects.store.open_store`. Returns where it is.

    CSV and JSON lines have no sketches; other bytes are text, as far as they are UTF-8. A text of CSV that a
    spreadsheet would take for a formula begins with an apostrophe. Raises InputError for a file that exists unless
    `overwrite`, and if the store refuses it.
    """
    file = f"{name}.{form}"
    if not is_url(target):
        return str(_to_directory(rows, Path(target), file, form, overwrite=overwrite, progress=progress))
    location = open_store(target, endpoint=endpoint, silent_seconds=_UPLOAD_SECONDS)
    prefix = location.path.rstrip("/")
    key = f"{prefix}/{file}" if prefix else file
    import obstore

    if not overwrite:
        with explained(location, "read", key):
            try:
                obstore.head(location.store, key)
            except FileNotFoundError:
                pass
            else:
                raise _exists(location.url_of(key))
    with tempfile.TemporaryDirectory(prefix="tidemark-") as directory:
        path = _to_directory(rows, Path(directory), file, form, overwrite=False, progress=progress)
        with explained(location, "written", key):
            obstore.put(location.store, key, path)
    return location.url_of(key)


def _to_directory(
    rows: pa.RecordBatchReader,
    directory: Path,
    file: str,
    form: Format,
    *,
    overwrite: bool,
    progress: Progress,
) -> Path:
    path = directory / file
    if path.exists() and not overwrite:
        raise _exists(str(path))
    directory.mkdir(parents=True, exist_ok=True)
    beside = directory / f".{file}.{os.getpid()}"
    try:
        with beside.open("wb") as out, _writer(out, form, rows.schema) as write:
            for batch in rows:
                write(batch)
                progress(batch.num_rows)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _exists(where: str) -> InputError:
    return InputError(f"{where} exists", "Choose another place, or use --overwrite.")


@contextmanager
def _writer(out: IO[bytes], form: Format, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    if form == "parquet":
        with pyarrow.parquet.ParquetWriter(out, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif form == "csv":
        plain = _text(schema.empty_table(), lists=False).schema
        with pyarrow.csv.CSVWriter(out, plain) as csv:
            yield lambda batch: csv.write_table(_neutral(_text(pa.Table.from_batches([batch]), lists=False)))
    else:

        def lines(batch: pa.RecordBatch) -> None:
            for row in _text(pa.Table.from_batches([batch]), lists=True).to_pylist():
                out.write(json.dumps(row, ensure_ascii=False, default=_plain).encode() + b"\n")

        yield lines


def _text(table: pa.Table, *, lists: bool) -> pa.Table:
    """The table without sketches, with other bytes as text; without `lists`, these are JSON."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_binary(column.type):
            if name.endswith("_sketch"):
                continue
            column = pa.array(
                [None if each is None else shown(each) for each in column.to_pylist()], pa.string()
            )
        elif pa.types.is_nested(column.type) and not lists:
            texts = [
                None if each is None else json.dumps(each, default=_plain) for each in column.to_pylist()
            ]
            column = pa.array(texts, pa.string())
        columns[name] = column
    return pa.table(columns)


def _neutral(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            risky = pc.match_substring_regex(column, FORMULA)
            quoted = pc.binary_join_element_wise("'", column, "")
            table = table.set_column(place, field, pc.if_else(risky, quoted, column))
    return table


def _plain(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
