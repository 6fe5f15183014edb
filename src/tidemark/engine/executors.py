"""The work on a batch in Spark's executors, which return partial rows and the names of written files, never lines.

Each task prepares its part of the batch some ten thousand rows at a time, writes new rows of append tables as Parquet
files into the tables' directories, and merges partial rows. A file counts once the driver has committed it:
files of failed or repeated tasks are in no table, and upkeep removes them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.store import DataFile, Directory
from tidemark.contract.table import Table
from tidemark.engine.work import Work

# Rows that a task prepares at a time: more of them share their distinct values, but leave the processor's cache.
PREPARED_ROWS = 40_000
# Rows that a task writes and aggregates at a time.
CHUNK_ROWS = 100_000
# Rows that are longer than usual are fewer at a time.
CHUNK_BYTES = 128 << 20
# Number of parts merged at a time. If there are more tasks, executors merge their parts first.
FAN_IN = 16
_RESULT = "kind string, name string, payload binary"
_IPC = pa.ipc.IpcWriteOptions(compression="zstd")

Batches = Iterator[pa.RecordBatch]
Read = Callable[[Batches], Batches]


@dataclass(frozen=True)
class Outcome:
    """Result of a batch in executors: the files to commit and the partial rows of the whole batch, by table. Partial
    rows are merged when they are asked for, so that threads which commit tables share that work."""

    files: Mapping[str, Sequence[DataFile]] = field(default_factory=dict)
    partials: Mapping[str, pa.Table] = field(default_factory=dict)


def run(
    work: Work, batch: DataFrame, directories: Mapping[str, Directory], label: str, read: Read = iter
) -> Outcome:
    """Does the work on a frame of the rows, and writes files with `label` in their names into the directories.

    `read` reads the rows if the frame has only their locations. A frame without rows has no partial rows.
    """
    made = batch.mapInArrow(partial(_task, work, directories, label, read), _RESULT)
    # The tasks of the frame that is collected below, so that Spark plans it once.
    tasks = made._jdf.queryExecution().toRdd().getNumPartitions()
    if tasks > FAN_IN:
        made = made.repartition(-(-tasks // FAN_IN)).mapInArrow(partial(_merge_task, work), _RESULT)
    files: dict[str, list[DataFile]] = {}
    parts: dict[str, list[pa.Buffer]] = {}
    for kind, name, payload in _results(made.toArrow().to_batches()):
        if kind == "file":
            files.setdefault(name, []).append(DataFile(**json.loads(payload.to_pybytes())))
        else:
            parts.setdefault(name, []).append(payload)
    return Outcome(files, _Partials(work, parts))


def warm_up(work: Work, schema: pa.Schema, spark: SparkSession) -> None:
    """Has a worker of each core load the code and data of the work, which takes seconds. `schema` is that of the rows
    which the work prepares."""
    cores = spark.sparkContext.defaultParallelism
    rows = partial(_loaded, work, schema.empty_table())
    spark.range(cores, numPartitions=cores).mapInArrow(rows, "id long").toArrow()


def _loaded(work: Work, rows: pa.Table, batches: Batches) -> Batches:
    prepared = work.encoded(work.prepare(rows))
    for name in work.aggregations:
        work.partial(name, prepared)
    return batches


@dataclass(frozen=True)
class _Partials(Mapping[str, pa.Table]):
    """The partial rows of the whole batch by table, from those of its parts."""

    work: Work
    parts: Mapping[str, Sequence[pa.Buffer]]

    def __getitem__(self, name: str) -> pa.Table:
        return self.work.merged(name, list(map(_read, self.parts[name])))

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def _task(
    work: Work, directories: Mapping[str, Directory], label: str, read: Read, batches: Batches
) -> Batches:
    writers = [(table, part, _Writer(table, directories[table.name], label)) for table, part in work.appends]
    parts: dict[str, list[pa.Table]] = {name: [] for name in work.aggregations}
    for chunk in _chunks(work, read(batches)):
        for table, part, writer in writers:
            writer.write(work.rows(table, part, chunk))
        rows = work.encoded(chunk)
        for name, found in parts.items():
            found.append(work.partial(name, rows))
            if len(found) == FAN_IN:
                parts[name] = [work.merged(name, found)]
    for table, _, writer in writers:
        for file in writer.close():
            yield _result("file", table.name, json.dumps(asdict(file)).encode())
    for name, found in parts.items():
        if found:
            yield _result("partial", name, _written(work.merged(name, found)))


def _merge_task(work: Work, batches: Batches) -> Batches:
    parts: dict[str, list[pa.Table]] = {}
    for kind, name, payload in _results(batches):
        if kind == "partial":
            parts.setdefault(name, []).append(_read(payload))
        else:
            yield _result(kind, name, payload.to_pybytes())
    for name, found in parts.items():
        yield _result("partial", name, _written(work.merged(name, found)))


def _chunks(work: Work, batches: Batches) -> Iterator[pa.Table]:
    """The prepared rows in chunks."""
    rows = (pa.Table.from_batches([batch]) for batch in batches)
    chunks = _gathered(map(work.prepare, _gathered(rows, PREPARED_ROWS)), CHUNK_ROWS)
    # Behind a second dictionary, Parquet writes the rest of a column without any.
    return (chunk.unify_dictionaries() for chunk in chunks)


def _gathered(parts: Iterator[pa.Table], enough: int) -> Iterator[pa.Table]:
    """The same rows in fewer parts, of at least `enough` rows or CHUNK_BYTES each."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(rows.num_rows for rows in held) >= enough or sum(rows.nbytes for rows in held) >= CHUNK_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


class _Writer:
    """Writes one task's rows of one table into one file."""

    def __init__(self, table: Table, directory: Directory, label: str) -> None:
        self._table = table
        self._directory = directory
        self._path = f"part-{label}-{uuid.uuid4().hex}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._nulls = dict.fromkeys(table.timed, 0)
        self._bounds: dict[str, tuple[datetime, datetime]] = {}

    def write(self, rows: pa.Table) -> None:
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


def _result(kind: str, name: str, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([kind]), pa.array([name]), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["kind", "name", "payload"])


def _results(
    batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch],
) -> Iterator[tuple[str, str, pa.Buffer]]:
    for batch in batches:
        for kind, name, payload in zip(*batch.columns, strict=True):
            yield kind.as_py(), name.as_py(), payload.as_buffer()


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_IPC) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def _read(payload: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()
