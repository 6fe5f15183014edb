"""What each stage of the way of a line costs: wall clock and processor time, warm, against reading the topic.

Fetching does what reading does, too; every other stage is by itself, on rows that are there already. Tables are written
by the flows' own sinks, gold's counting and merging included. Judging is done here and, for comparison, as for a batch
too large to be fetched: by Spark's Python workers, after reading.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.cpu import Used
from benchmarks.drain import write
from benchmarks.figures import Figure
from bronze import access_log
from gold import visitors_by_country
from silver import requests
from tidemark import kafka, lakehouse, pipeline
from tidemark.arrow import Vectorized
from tidemark.enrich.columns import Knowledge
from tidemark.enrich.visitor import make_visitor_key, visitor_key
from tidemark.flow.sinks import Sink
from tidemark.formats import FIELDS, LINE, fields
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.machine import judging_threads
from tidemark.session import spark_session
from tidemark.settings import Settings
from tidemark.store.base import Commit
from tidemark.store.deltars import DeltaRsStore

_WARM_UPS = 4


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Lines per second and microseconds of processor time a line, by stage."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log"
        write(log, lines)
        with broker.running(Settings(home=Path(directory) / "home", broker_port=0)) as settings:
            import_files([str(log)], Options(settings, say=lambda text: None))
            spark = spark_session(settings)
            reader = spark.read.format("kafka").options(**kafka.spark_options(settings))
            records = reader.option("subscribe", settings.topic).option("includeHeaders", "true").load()
            figures, used = [], Used()
            for name, act in _stages(settings, records).items():
                rates, costs = [], []
                for _ in range(_WARM_UPS + runs):
                    # Of this process, Spark's JVM and its Python workers; the broker is not a child of ours.
                    used.look(os.getpid())
                    before, begun = used.seconds, time.perf_counter()
                    act()
                    rates.append(lines / (time.perf_counter() - begun))
                    used.look(os.getpid())
                    costs.append((used.seconds - before) / lines * 1e6)
                figures.append(Figure(f"{name}, lines/s", rates[_WARM_UPS:]))
                figures.append(Figure(f"{name}, us of CPU a line", costs[_WARM_UPS:]))
            spark.stop()
    return figures


def _stages(settings: Settings, records: DataFrame) -> dict[str, Callable[[], object]]:
    make_visitor_key(settings)
    knowledge = Knowledge(visitor_key(settings), settings.geo_database)
    judging, threads = requests.judging(knowledge), ThreadPoolExecutor(judging_threads())
    house = lakehouse.of(settings)
    store = DeltaRsStore(house)
    lines = access_log.access_log(records)
    fetched = lines.toArrow()
    judged = judging.to_table(fetched, threads)
    accepted = judged.filter(judged["accepted"]).select(requests.TABLE.column_names)
    spark, numbers = records.sparkSession, count()
    in_spark = spark.createDataFrame(accepted).persist()
    in_spark.count()
    for table in pipeline.TABLES:
        store.ensure(table)

    def written(sink: Sink, rows: pa.Table) -> Callable[[], object]:
        return lambda: sink.write_fetched(store, rows, Commit("benchmark", next(numbers)))

    firsts = pipeline.requests_flow(settings, knowledge.key).plan(judged).sinks
    seconds = pipeline.activity_flow(settings, house, store).plan(accepted).sinks
    return {
        "reference: read the topic": lambda: _thrown_away(records.select("value")),
        "read, with headers": lambda: _thrown_away(lines),
        "... and fetch": lines.toArrow,
        "parse, here": lambda: Vectorized(LINE, FIELDS, fields).to_table(fetched, threads),
        "parse, enrich and judge, here": lambda: judging.to_table(fetched, threads),
        "read, parse, enrich and judge by Spark": lambda: _thrown_away(judging.to_frame(lines)),
        **{f"write {sink.table.name}": written(sink, judged) for sink in firsts},
        **{f"write {sink.table.name}": written(sink, accepted) for sink in seconds},
        "write silver.requests, by Spark": lambda: store.append(
            requests.TABLE, in_spark, Commit("benchmark", next(numbers))
        ),
        "rows of visitors_by_country, here": lambda: visitors_by_country.COUNTS.here(accepted),
        "rows of visitors_by_country, by Spark": visitors_by_country.COUNTS.by_spark(in_spark).toArrow,
    }


def _thrown_away(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
