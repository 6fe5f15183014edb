"""What each stage of the way of a line costs: wall clock and processor time, warm, against reading the topic.

Fetching does what reading does, too; every other stage is by itself, on rows that are there already. Judging is done
here and, for comparison, as for a batch too large to be fetched: by Spark's Python workers, after reading.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from benchmarks.cpu import Used
from benchmarks.drain import write
from benchmarks.figures import Figure
from bronze import access_log
from gold import visitors_by_country
from silver import requests
from silver import sessions as silver_sessions
from tidemark import kafka, lakehouse
from tidemark.arrow import Vectorized
from tidemark.enrich.columns import Knowledge
from tidemark.enrich.visitor import visitor_key
from tidemark.formats import FIELDS, LINE, fields
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.machine import judging_threads
from tidemark.session import spark_session
from tidemark.sessions import intervals, merge
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
    knowledge = Knowledge(visitor_key(settings), settings.geo_database)
    judging, threads = requests.judging(knowledge), ThreadPoolExecutor(judging_threads())
    store = DeltaRsStore(lakehouse.of(settings))
    tables = (access_log.TABLE, requests.TABLE, visitors_by_country.TABLE, silver_sessions.TABLE)
    for table in tables:
        store.ensure(table)
    lines = access_log.access_log(records)
    fetched = lines.toArrow()
    judged = judging.to_table(fetched, threads)
    accepted = judged.filter(judged["accepted"]).select(requests.TABLE.column_names)
    pageviews = accepted.filter(accepted["pageview"])
    spark, numbers = records.sparkSession, count()
    in_spark = spark.createDataFrame(accepted).persist()
    in_spark.count()
    newest = dict.fromkeys(pc.unique(accepted["site"]).to_pylist(), pc.max(accepted["event_time"]).as_py())
    none = silver_sessions.TABLE.arrow_schema.empty_table()

    def merged() -> object:
        gap = settings.session_gap_seconds
        return merge(none, intervals(pageviews), gap_seconds=gap, newest=newest, now=datetime.now(UTC))

    return {
        "reference: read the topic": lambda: _thrown_away(records.select("value")),
        "read, with headers": lambda: _thrown_away(lines),
        "... and fetch": lines.toArrow,
        "parse, here": lambda: Vectorized(LINE, FIELDS, fields).to_table(fetched, threads),
        "parse, enrich and judge, here": lambda: judging.to_table(fetched, threads),
        "read, parse, enrich and judge by Spark": lambda: _thrown_away(judging.to_frame(lines)),
        "write bronze.access_log, by delta-rs": lambda: store.append_arrow(
            access_log.TABLE, judged.select(access_log.TABLE.column_names)
        ),
        "write silver.requests, by delta-rs": lambda: store.append_arrow(requests.TABLE, accepted),
        "write silver.requests, by Spark": lambda: store.append(
            requests.TABLE, in_spark, Commit("benchmark", next(numbers))
        ),
        "rows of visitors_by_country, here": lambda: visitors_by_country.COUNTS.here(accepted),
        "rows of visitors_by_country, by Spark": visitors_by_country.COUNTS.by_spark(in_spark).toArrow,
        "sessions of the batch": merged,
    }


def _thrown_away(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
