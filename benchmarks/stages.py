"""Cost of each processing stage of a line: elapsed and CPU time, warm, compared with reading the topic.

Collecting includes reading; every other stage runs alone, on rows in memory. Tables are written
by the flows' own code, including gold's counting and merging. The whole work of the first flow, without the commits,
also runs in executors, as for a large batch. At the end, the lines of every format are parsed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks import parsing
from benchmarks.cpu import Used
from benchmarks.drain import write
from benchmarks.figures import Figure
from bronze import access_log
from silver import requests
from tidemark.contract.aggregation import Aggregation
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.engine.arrays import Vectorized
from tidemark.engine.batches import Local
from tidemark.engine.distributed import distributed
from tidemark.engine.work import Part, Work
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.machine import validation_threads
from tidemark.parse.detect import FIELDS, LINE, fields
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.spark import spark_session
from tidemark.stream import spread_topic
from tidemark.stream.merge import merge_into

_WARM_UPS = 4


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Lines per second and microseconds of CPU time per line, by stage."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log"
        write(log, lines)
        with broker.running(Settings.of(home=Path(directory) / "home", broker_port=0)) as settings:
            import_files([str(log)], Options(settings.kafka, say=lambda text: None))
            spark = spark_session(settings)
            reader = spark.read.format("kafka").options(**kafka.spark_options(settings.kafka))
            records = reader.option("subscribe", settings.kafka.topic).option("includeHeaders", "true").load()
            figures, used = [], Used()
            for name, act in _stages(settings, records).items():
                rates, costs = [], []
                for _ in range(_WARM_UPS + runs):
                    # This process, Spark's JVM and its Python workers. The broker is not a child process.
                    used.look(os.getpid())
                    before, begun = used.seconds, time.perf_counter()
                    act()
                    rates.append(lines / (time.perf_counter() - begun))
                    used.look(os.getpid())
                    costs.append((used.seconds - before) / lines * 1e6)
                figures.append(Figure(f"{name}, lines/s", rates[_WARM_UPS:]))
                figures.append(Figure(f"{name}, us of CPU a line", costs[_WARM_UPS:]))
            spark.stop()
    return figures + parsing.measure(lines=lines // 10, runs=runs)


def _stages(settings: Settings, records: DataFrame) -> dict[str, Callable[[], object]]:
    pipeline = Pipeline.of(settings)
    store = pipeline.store
    threads = ThreadPoolExecutor(validation_threads())
    numbers = count()
    first, second = pipeline.flows  # these make the visitor key, which must be older than the tables
    for table in pipeline.tables:
        store.ensure(table)
    lines = access_log.access_log(records)
    fetched = lines.toArrow()
    ends = kafka.end_offsets(settings.kafka, settings.kafka.topic)
    ranges = {partition: (0, end) for partition, end in ends.items()}
    batch = Local.of(first.work, fetched, threads)
    accepted = batch.prepared.filter(batch.prepared["accepted"]).select(requests.TABLE.column_names)
    later = Local(second.work, accepted)

    def merged(table: Table, aggregation: Aggregation, of: Local) -> Callable[[], object]:
        return lambda: merge_into(
            store, table, aggregation, of.partial(table.name), Commit("benchmark", next(numbers))
        )

    def executed() -> object:
        rows = spread_topic.spread(records.sparkSession, settings.kafka, ranges, access_log.rows)
        with distributed(first.work, rows, store, "benchmark") as done:
            return done

    parsing = Vectorized(LINE, FIELDS, fields)

    def appended(table: Table, part: Part) -> Callable[[], object]:
        return lambda: batch.append(store, table, part, Commit("benchmark", next(numbers)))

    return {
        "reference: read the topic": lambda: _thrown_away(records.select("value")),
        "read, with headers": lambda: _thrown_away(lines),
        "... and collect as Arrow": lines.toArrow,
        "parse, in the driver": lambda: Local.of(Work(validation=parsing), fetched, threads),
        "parse, enrich and validate, in the driver": lambda: Local.of(first.work, fetched, threads),
        "all of the first flow in executors but the commits": executed,
        **{f"write {table.name}": appended(table, part) for table, part in first.work.appends},
        **{f"merge into {table.name}": merged(table, each, batch) for table, each in first.upserts},
        **{f"merge into {table.name}": merged(table, each, later) for table, each in second.upserts},
    }


def _thrown_away(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
