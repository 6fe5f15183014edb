"""Takes the log files of days into a home without Kafka and Spark, and does upkeep and retention after each.

`python -m benchmarks.file_days HOME` reads paths of files, one a line, and answers each with JSON: the seconds that its
process took, and the most MiB that it had. Each day has a process of its own, a fork of this one, because loading
Python's modules and the enrichment data takes longer than the lines of a day.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from tidemark.engine.tasks import load
from tidemark.importing.file_import import ReadOptions, Report
from tidemark.importing.lines import Block
from tidemark.local.directories import prepare_home
from tidemark.local.workers import worker_pool
from tidemark.pipeline import Pipeline
from tidemark.service.files import FileRun, headers_of, records_of
from tidemark.service.upkeep import maintain_tables
from tidemark.settings import load as load_settings
from tidemark.stream import lock
from tidemark.traffic.stream import Traffic, blocks


def main(home: Path) -> None:
    settings = load_settings({"home": home})
    prepare_home(settings)
    pipeline = Pipeline.of(settings)
    examples = next(iter(blocks(Traffic(start=1_780_000_200, rate=1_000, seconds=1, seed=1))))
    records = records_of([Block(list(examples.lines))], headers_of())
    lines = pipeline.lines(records, topic="", first=0, arrived=datetime.now(UTC))
    load(pipeline.requests(pipeline.validation()).work, lines)
    # Arrow's own pool takes large pages, which cost a fork more to clear than its rows.
    pa.set_memory_pool(pa.system_memory_pool())
    gc.freeze()  # a fork that looks at these objects would copy them
    for line in sys.stdin:
        begun = time.monotonic()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _take(home, line.rstrip("\n"))
                status = 0
            finally:
                os._exit(status)
        _, status, used = os.wait4(pid, 0)
        if status:
            sys.exit(f"the day of {line.strip()} ended with {status}")
        print(json.dumps([time.monotonic() - begun, used.ru_maxrss / 1024]), flush=True)


def _take(home: Path, log: str) -> None:
    settings = load_settings({"home": home})
    pipeline = Pipeline.of(settings).on_files()
    with lock.only_one(settings), worker_pool(1) as pool:
        run = FileRun(pipeline, pool, 1)
        run.start([log])
        errors = run.read([log], ReadOptions(say=print), Report())
        run.close()
    if errors:
        raise errors[0]
    maintain_tables(settings)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
