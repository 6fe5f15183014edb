"""Costs of a line, a key and a commit, without Kafka and Spark: the figures that docs/scale.md uses.

The lines of a busy period are validated in one batch and split into halves. The first half fills the
tables. The second is merged into them repeatedly, so every merge reads and writes existing rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa

from benchmarks.drain import START
from benchmarks.figures import Figure
from silver import requests
from tidemark.contract.aggregation import Aggregation
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.engine.batches import Local
from tidemark.machine import validation_threads
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.sizes import sizes
from tidemark.stream.merge import merge_into
from tidemark.traffic.stream import Traffic, blocks

_COMMITS = 20
_ROWS_OF_A_COMMIT = 100


def measure(*, rate: int, seconds: int, runs: int) -> list[Figure]:
    """Bytes a line by table, milliseconds a commit, and time and bytes a key by table; `rate` lines for each of
    `seconds` of event time."""
    lines = _lines(rate, seconds)
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        return _Costs(Settings.of(home=Path(directory)), lines, runs).figures()


class _Costs:
    def __init__(self, settings: Settings, lines: pa.Table, runs: int) -> None:
        pipeline = Pipeline.of(settings)
        self._settings, self._lines, self._runs = settings, lines, runs
        self._store = pipeline.store
        self._numbers = count()
        self._sizes = sizes(pipeline.lakehouse, pipeline.tables)
        self._first, self._second = pipeline.flows
        for table in pipeline.tables:
            self._store.ensure(table)
        with ThreadPoolExecutor(validation_threads()) as threads:
            self._batch = Local.of(self._first.work, lines, threads)

    def figures(self) -> list[Figure]:
        return [
            Figure("raw line, bytes", [self._raw.nbytes / len(self._lines)]),
            Figure("1,000 lines as LZ4, bytes a line", [self._as_lz4()]),
            *self._appended(),
            *self._commits(),
            *self._merged(),
        ]

    @property
    def _raw(self) -> pa.ChunkedArray:
        return self._lines["value"]

    def _as_lz4(self) -> float:
        text = b"\n".join(self._raw.slice(0, 1_000).to_pylist())
        return float(pa.compress(text, "lz4").size / 1_000)

    def _appended(self) -> list[Figure]:
        figures = []
        for table, part in self._first.work.appends:
            self._batch.append(self._store, table, part, self._commit())
            rows, size = self._size(table)
            figures.append(Figure(f"{table.name}, bytes a row", [size / max(rows, 1)]))
        return figures

    def _commits(self) -> list[Figure]:
        table, part = self._first.work.appends[0]
        few = Local(self._first.work, self._batch.prepared.slice(0, _ROWS_OF_A_COMMIT))
        times = [
            _seconds(lambda: few.append(self._store, table, part, self._commit())) for _ in range(_COMMITS)
        ]
        log = Path(lakehouse.of(self._settings).path(table)) / "_delta_log"
        newest = max(log.glob("*.json"))
        return [
            Figure(f"commit of {_ROWS_OF_A_COMMIT} rows, ms", [1_000 * each for each in times]),
            Figure("entry of the Delta log, bytes", [newest.stat().st_size]),
        ]

    def _merged(self) -> list[Figure]:
        accepted = self._batch.prepared.filter(self._batch.prepared["accepted"])
        rows = accepted.select(requests.TABLE.column_names)
        figures = []
        for flow, source in ((self._first, accepted), (self._second, rows)):
            half = len(source) // 2
            for table, aggregation in flow.upserts:
                start, again = (
                    Local(flow.work, part) for part in (source.slice(0, half), source.slice(half))
                )
                self._merge(table, aggregation, start.partial(table.name))
                figures += self._again(table, aggregation, again)
        return figures

    def _again(self, table: Table, aggregation: Aggregation, batch: Local) -> list[Figure]:
        aggregate = [_seconds(lambda: batch.partial(table.name)) for _ in range(self._runs)]
        partials = batch.partial(table.name)
        merge = [_seconds(lambda: self._merge(table, aggregation, partials)) for _ in range(self._runs)]
        rows, size = self._size(table)
        keys = len(partials)
        return [
            Figure(f"{table.name}: keys of the batch", [keys]),
            Figure(f"{table.name}: aggregate, us a line", [1e6 * s / len(batch.prepared) for s in aggregate]),
            Figure(f"{table.name}: merge and commit, ms", [1e3 * s for s in merge]),
            Figure(f"{table.name}: partial rows, bytes a key", [partials.nbytes / keys]),
            Figure(f"{table.name}: table, bytes a row", [size / rows]),
        ]

    def _merge(self, table: Table, aggregation: Aggregation, partials: pa.Table) -> None:
        merge_into(self._store, table, aggregation, partials, self._commit())

    def _commit(self) -> Commit:
        return Commit("benchmark", next(self._numbers))

    def _size(self, table: Table) -> tuple[int, int]:
        """Rows and bytes of the table's newest version."""
        return self._sizes()[table.name]


def _seconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def _lines(rate: int, seconds: int) -> pa.Table:
    """Raw lines as the batch of a flow has them."""
    traffic = Traffic(start=START, rate=rate, seconds=seconds, seed=1, visitors=1_000_000)
    lines = [line for block in blocks(traffic, truth=False) for line in block.lines]
    size = len(lines)
    arrived = datetime.fromtimestamp(START + seconds, UTC)
    return pa.table(
        {
            "topic": ["access-log"] * size,
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
            "site": ["default"] * size,
            "format": pa.nulls(size, pa.string()),
            "fields": pa.nulls(size, pa.string()),
            "id": pa.nulls(size, pa.string()),
            "chunk": pa.nulls(size, pa.string()),
            "privacy": pa.nulls(size, pa.string()),
            "value": pa.array(lines, pa.binary()),
            "kafka_timestamp": pa.array([arrived] * size, pa.timestamp("us", "UTC")),
        }
    )
