"""Import of many small compressed objects from a server of S3. The reference in the same run is the import of one
compressed file with the same lines.

The server runs on the same machine, and takes CPU from the import; its own is shown.
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
from dataclasses import dataclass
from pathlib import Path

import psutil

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
    of_objects, of_file, of_server = list[_Run](), list[_Run](), list[float]()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log.gz"
        with gzip.open(log, "wb") as file:
            for number in range(objects):
                file.write(object_lines(number, lines))
        settings = Settings.of(home=Path(directory) / "home", broker_port=0)
        with broker.running(settings) as running, serving(objects, lines) as (address, server):
            wanted = ObjectOptions(endpoint=address)
            for _ in range(runs):
                served = _cpu_seconds(server)
                of_objects.append(
                    _run(
                        running, lambda how, report: import_objects([f"s3://{BUCKET}/"], how, wanted, report)
                    )
                )
                of_server.append(_cpu_seconds(server) - served)
                of_file.append(_run(running, lambda how, report: import_files([str(log)], how, report)))
    assert {each.lines for each in (*of_objects, *of_file)} == {objects * lines}
    ratios = [ours.rate / theirs.rate for ours, theirs in zip(of_objects, of_file, strict=True)]
    return [
        Figure(
            f"import of {objects:,} objects of {lines:,} lines, lines/s", [each.rate for each in of_objects]
        ),
        Figure("reference: import of one file with the same lines, lines/s", [each.rate for each in of_file]),
        Figure("ratio of the objects to it", ratios),
        Figure("CPU seconds of the import of objects", [each.cpu_seconds for each in of_objects]),
        Figure("CPU seconds of the import of the file", [each.cpu_seconds for each in of_file]),
        Figure("CPU seconds of the server of objects", of_server),
    ]


@dataclass(frozen=True)
class _Run:
    """An import: its lines, how long it took, and the CPU time of its process."""

    lines: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.lines / self.seconds


def _run(settings: Settings, run: Callable[[Options, Report], object]) -> _Run:
    """An import into a new topic."""
    report, topic = Report(), settings.changed(topic=f"log-{uuid.uuid4().hex[:12]}")
    began, cpu = time.monotonic(), time.process_time()
    run(Options(topic.kafka), report)
    return _Run(report.added, time.monotonic() - began, time.process_time() - cpu)


def _cpu_seconds(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


@contextmanager
def serving(objects: int, lines: int) -> Iterator[tuple[str, psutil.Process]]:
    """A server with these objects: its address and its process."""
    command = [sys.executable, "-m", "benchmarks.object_server", str(objects), str(lines)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), psutil.Process(process.pid)
        finally:
            process.kill()
