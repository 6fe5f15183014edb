"""What each stage of the way of a line costs: wall clock and processor time, warm, against reading the topic.

Each stage does all before it too, and throws its rows away; so a stage's own cost is the difference to the line
above. A batch is kept in memory and fetched as Arrow. Writing a table is by itself: rows that are there already, by
either of the two writers.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.cpu import Used
from benchmarks.drain import write
from benchmarks.figures import Figure
from bronze import access_log
from silver import rejected, requests
from tidemark import kafka, lakehouse
from tidemark.formats import parse
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.pipeline import requests_flow
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
            for name, act in (_stages(settings, records) | _writes(settings, records)).items():
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


def _writes(settings: Settings, records: DataFrame) -> dict[str, Callable[[], object]]:
    store = DeltaRsStore(lakehouse.of(settings))
    store.ensure(requests.TABLE)
    accepted = (
        requests_flow(settings)
        .prepare(records)
        .where("accepted")
        .select(*requests.TABLE.column_names)
        .persist()
    )
    fetched = accepted.toArrow()
    numbers = count()
    return {
        "write silver.requests, by delta-rs": lambda: store.append_arrow(requests.TABLE, fetched),
        "write silver.requests, by Spark": lambda: store.append(
            requests.TABLE, accepted, Commit("benchmark", next(numbers))
        ),
    }


def _stages(settings: Settings, records: DataFrame) -> dict[str, Callable[[], object]]:
    lines = access_log.access_log(records)
    judged = requests_flow(settings).prepare(records)
    tables = (access_log.TABLE, requests.TABLE, rejected.TABLE)
    columns = [*dict.fromkeys(name for table in tables for name in table.column_names), "accepted"]

    def kept() -> None:
        judged.persist()
        judged.select(*columns).toArrow()
        judged.unpersist()

    return {
        "reference: read the topic": lambda: _thrown_away(records.select("value")),
        "read, with headers": lambda: _thrown_away(lines),
        "... and parse": lambda: _thrown_away(parse(lines)),
        "... and enrich and judge": lambda: _thrown_away(judged),
        "... and fetch": lambda: judged.select(*columns).toArrow(),
        "... and keep in memory": kept,
    }


def _thrown_away(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
