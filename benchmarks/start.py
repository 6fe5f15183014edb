"""Time from `tidemark run` to its first commit in gold, with lines waiting: with the class archive of
`tidemark prepare`, and without it as the reference.

Each start has a new home, so it includes the creation of the tables; the JVM libraries are in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.drain import write
from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.settings import Settings

LINES = 1_000
_PATIENCE_SECONDS = 120.0
# Naming a missing archive means to use none.
_NO_ARCHIVE = "-XX:SharedArchiveFile=/nonexistent -Xlog:disable"


def measure(*, runs: int) -> list[Figure]:
    """Seconds from the start of the process to the first commit, alternating with and without the archive."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        with broker.running(Settings.of(home=root / "broker", broker_port=0)) as at:
            write(root / "access.log", LINES)
            import_files([str(root / "access.log")], Options(at.kafka, say=lambda text: None))
            prepared, plain = [], []
            for number in range(runs):
                prepared.append(_started(root / f"prepared-{number}", at.kafka.bootstrap_servers, ""))
                plain.append(_started(root / f"plain-{number}", at.kafka.bootstrap_servers, _NO_ARCHIVE))
    return [
        Figure("start to first commit, s", prepared),
        Figure("reference: without the archive of classes, s", plain),
        Figure("ratio", [with_it / without for with_it, without in zip(prepared, plain, strict=True)]),
    ]


def _started(home: Path, servers: str, java_options: str) -> float:
    environment = os.environ | {"TIDEMARK_DRIVER_JAVA_OPTIONS": java_options}
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemark", "--home", str(home), "--bootstrap-servers", servers, "run"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        log = home / "tables/gold/visitors_by_country/_delta_log"
        while not (log / f"{1:020}.json").exists():  # version 0 creates the table
            if process.poll() is not None or time.monotonic() > begun + _PATIENCE_SECONDS:
                raise RuntimeError("the pipeline did not come to its first commit")
            time.sleep(0.02)
        return time.monotonic() - begun
    finally:
        process.terminate()
        process.wait(60)
