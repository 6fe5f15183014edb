"""Time of `tidemark run --once` when there is nothing to do, compared with a bare PySpark session that runs one trivial
query."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.cpu import used_by
from benchmarks.drain import write
from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.settings import Settings

LINES = 10_000
_ONCE = [sys.executable, "-m", "tidemark", "run", "--once"]
BARE_SESSION = [
    sys.executable,
    "-c",
    "from pyspark.sql import SparkSession\n"
    "session = SparkSession.builder.config('spark.ui.enabled', 'false').getOrCreate()\n"
    "assert session.range(10).count() == 10\n"
    "session.stop()\n",
]


def measure(*, runs: int) -> list[Figure]:
    """Seconds of wall and CPU time of both, run alternately on a home whose lines are all in the tables."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        with broker.running(Settings.of(home=root / "home", broker_port=0)) as settings:
            write(root / "access.log", LINES)
            import_files([str(root / "access.log")], Options(settings.kafka, say=lambda text: None))
            environment = os.environ | settings.environment()
            timed(_ONCE, environment)
            once, bare = [], []
            for _ in range(runs):
                once.append(timed(_ONCE, environment))
                bare.append(timed(BARE_SESSION, environment))
    return [
        Figure("run --once with nothing to do, s", [wall for wall, _ in once]),
        Figure("reference: a bare PySpark session, s", [wall for wall, _ in bare]),
        Figure("ratio", [ours / other for (ours, _), (other, _) in zip(once, bare, strict=True)]),
        Figure("run --once with nothing to do, s of CPU", [cpu for _, cpu in once]),
        Figure("reference: a bare PySpark session, s of CPU", [cpu for _, cpu in bare]),
    ]


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of wall and CPU time of a command."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with used_by(process.pid) as used:
        status = process.wait()
    assert status == 0, f"{command} ended with {status}"
    return time.monotonic() - begun, used.seconds
