"""The work on a batch in Spark's executors, which return partial rows and the names of written files, never lines.

Each task does its part of the batch (`tidemark.engine.tasks`). A file counts once the driver has committed it: files of
failed or repeated tasks are in no table, and upkeep removes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidemark.contract.store import DataFile, Directory
from tidemark.engine.tasks import FAN_IN, Outcome, Partials, Task, chunks, load
from tidemark.engine.work import Work

# How far the workers of executors lower their priority.
_NICE = 5
_RESULT = "kind string, name string, payload binary"
_IPC = pa.ipc.IpcWriteOptions(compression="zstd")

Batches = Iterator[pa.RecordBatch]
Read = Callable[[Batches], Batches]


@dataclass(frozen=True)
class Spread:
    """Rows for executors: a frame of them, or of their locations, from which `read` reads rows of the `schema`."""

    frame: DataFrame
    read: Read = iter
    schema: pa.Schema | None = None

    @property
    def rows(self) -> DataFrame:
        """A frame of the rows."""
        if self.schema is None:
            return self.frame
        return self.frame.mapInArrow(self.read, from_arrow_schema(self.schema))


def run(work: Work, batch: Spread, directories: Mapping[str, Directory], label: str) -> Outcome:
    """Does the work on the rows, and writes files with `label` in their names into the directories. Without rows there
    are no partial rows."""
    results = batch.frame.mapInArrow(partial(_task, work, directories, label, batch.read), _RESULT)
    # The tasks of the frame that is collected below, so that Spark plans it once.
    tasks = results._jdf.queryExecution().toRdd().getNumPartitions()
    if tasks > FAN_IN:
        results = results.repartition(-(-tasks // FAN_IN)).mapInArrow(partial(_merge_task, work), _RESULT)
    files: dict[str, list[DataFile]] = {}
    parts: dict[str, list[pa.Buffer]] = {}
    for kind, name, payload in _results(results.toArrow().to_batches()):
        if kind == "file":
            files.setdefault(name, []).append(DataFile(**json.loads(payload.to_pybytes())))
        else:
            parts.setdefault(name, []).append(payload)
    return Outcome(files, Partials(work, parts, _read))


def warm_up(work: Work, schema: pa.Schema, spark: SparkSession) -> None:
    """Has a worker of each core load the code and data of the work, which takes seconds. `schema` is that of the rows
    which the work prepares."""
    cores = spark.sparkContext.defaultParallelism
    rows = partial(_loaded, work, schema.empty_table())
    spark.range(cores, numPartitions=cores).mapInArrow(rows, "id long").toArrow()


def _loaded(work: Work, rows: pa.Table, batches: Batches) -> Batches:
    load(work, rows)
    return batches


def _task(
    work: Work, directories: Mapping[str, Directory], label: str, read: Read, batches: Batches
) -> Batches:
    _give_way()
    task = Task(work, directories, label)
    for chunk in chunks(work, (pa.Table.from_batches([batch]) for batch in read(batches))):
        task.add(chunk)
    for table, file in task.files():
        yield _result("file", table, json.dumps(asdict(file)).encode())
    for name, rows in task.partials():
        yield _result("partial", name, _written(rows))


@cache
def _give_way() -> None:
    """Lets the driver's small batches go first: people watch their tables."""
    os.nice(_NICE)


def _merge_task(work: Work, batches: Batches) -> Batches:
    parts: dict[str, list[pa.Table]] = {}
    for kind, name, payload in _results(batches):
        if kind == "partial":
            parts.setdefault(name, []).append(_read(payload))
        else:
            yield _result(kind, name, payload.to_pybytes())
    for name, of_table in parts.items():
        yield _result("partial", name, _written(work.merged(name, of_table)))


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
