"""Import of many small compressed objects from a server of S3. The reference in the same run is the import of one
compressed file with the same lines.

The server runs on the same machine, and its CPU is a part of what an import of objects costs here.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.object_server import BUCKET, object_lines
from tidemark.importing.file_import import Report
from tidemark.importing.importer import Options, import_files
from tidemark.importing.objects import ObjectOptions, import_objects
from tidemark.local import broker
from tidemark.settings import Settings

_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark",
    "AWS_REGION": "us-east-1",
}


def measure(*, objects: int, lines: int, runs: int) -> list[Figure]:
    """Lines per second of `objects` objects with `lines` lines each, and of one file with all of them."""
    os.environ.update(_CREDENTIALS)
    rates: dict[str, list[float]] = {"objects": [], "file": []}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log.gz"
        with gzip.open(log, "wb") as file:
            for number in range(objects):
                file.write(object_lines(number, lines))
        settings = Settings.of(home=Path(directory) / "home", broker_port=0)
        with broker.running(settings) as running, serving(objects, lines) as address:
            wanted = ObjectOptions(endpoint=address)

            def of_objects(options: Options, report: Report) -> None:
                import_objects([f"s3://{BUCKET}/"], options, wanted, report)

            def of_file(options: Options, report: Report) -> None:
                import_files([str(log)], options, report)

            for _ in range(runs):
                rates["objects"].append(_rate(running, of_objects, objects * lines))
                rates["file"].append(_rate(running, of_file, objects * lines))
    ratios = [ours / theirs for ours, theirs in zip(rates["objects"], rates["file"], strict=True)]
    return [
        Figure(f"import of {objects:,} objects of {lines:,} lines, lines/s", rates["objects"]),
        Figure("reference: import of one file with the same lines, lines/s", rates["file"]),
        Figure("ratio of the objects to it", ratios),
    ]


def _rate(settings: Settings, run: Callable[[Options, Report], None], lines: int) -> float:
    """Lines per second of an import into a new topic."""
    report, topic = Report(), settings.changed(topic=f"log-{uuid.uuid4().hex[:12]}")
    began = time.monotonic()
    run(Options(topic.kafka), report)
    assert report.added == lines, report
    return lines / (time.monotonic() - began)


@contextmanager
def serving(objects: int, lines: int) -> Iterator[str]:
    """The address of a server with these objects, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.object_server", str(objects), str(lines)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()
