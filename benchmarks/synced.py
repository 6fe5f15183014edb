"""The cost of one sync of the file system after each batch of the pipeline.

The pipeline runs without and with it, in turn, under the same load.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import psutil

from benchmarks import freshness
from benchmarks.figures import Figure
from tidemark.cli import main
from tidemark.local import durable
from tidemark.stream.crash import crash_point

_TIMES = "TIDEMARK_BENCH_SYNCS"


def measure(*, rate: int, seconds: int, warm_up: int, runs: int) -> list[Figure]:
    """Freshness and writes to devices of both, the durations of the syncs, and the ratios run by run."""
    as_it_is, synced, durations = [], [], []
    for _ in range(runs):
        as_it_is.append(_run(rate, seconds, warm_up))
        with _syncs() as times:
            synced.append(_run(rate, seconds, warm_up))
            durations.append(np.loadtxt(times) * 1000)
    ratios = [
        [after / before for before, after in zip(*pair, strict=True)]
        for pair in zip(as_it_is, synced, strict=True)
    ]
    return [
        figure
        for place, name in enumerate(
            ("p50 of freshness, s", "p95 of freshness, s", "writes to devices", "MB written")
        )
        for figure in (
            Figure(f"as it is: {name}", [run[place] for run in as_it_is]),
            Figure(f"one sync a batch: {name}", [run[place] for run in synced]),
            Figure(f"ratio: {name}", [run[place] for run in ratios]),
        )
    ] + [
        Figure(f"one sync, p{percent}, ms", [float(np.percentile(run, percent)) for run in durations])
        for percent in (50, 95, 100)
    ]


def _run(rate: int, seconds: int, warm_up: int) -> tuple[float, float, int, float]:
    os.sync()
    before = psutil.disk_io_counters()
    *_, p50, p95 = freshness.measure(rate=rate, seconds=seconds, warm_up=warm_up)
    after = psutil.disk_io_counters()
    assert before
    assert after
    return (
        p50.median,
        p95.median,
        after.write_count - before.write_count,
        (after.write_bytes - before.write_bytes) / 1e6,
    )


@contextmanager
def _syncs() -> Iterator[Path]:
    """Pipelines that are started meanwhile sync after each batch. Yields the file of the syncs' seconds."""
    with tempfile.NamedTemporaryFile() as times:
        command = [sys.executable, "-m", "benchmarks.synced"]
        with (
            mock.patch.dict(os.environ, {_TIMES: times.name}),
            mock.patch.object(freshness, "TIDEMARK", command),
        ):
            yield Path(times.name)


def _sync_after_batches(times: Path) -> None:
    """From now on, a batch of this process ends with a sync of the home's file system."""

    def after_batch(name: str) -> None:
        begun = time.monotonic()
        durable.sync([Path(os.environ["TIDEMARK_HOME"])])
        with times.open("a") as file:
            file.write(f"{time.monotonic() - begun}\n")
        crash_point(name)

    mock.patch("tidemark.stream.query.crash_point", after_batch).start()


if __name__ == "__main__":
    _sync_after_batches(Path(os.environ[_TIMES]))
    main()
