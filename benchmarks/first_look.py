"""Time from the command to figures: `tidemark view` of log files, the same view again, and `tidemark demo`. References
in the same run are a bare PySpark session, and GoAccess's report on the same file, where GoAccess is installed.

Every run has an empty cache of views, or a new home. The JVM libraries and class archives of `tidemark prepare`, which
the demo needs, are in the cache.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cpu import used_by
from benchmarks.drain import reported, write
from benchmarks.figures import Figure
from benchmarks.once import BARE_SESSION, timed
from tidemark.local import dashboard
from tidemark.settings import Settings

_PATIENCE_SECONDS = 180.0


def measure(*, lines: int, more: int, most: int, runs: int) -> list[Figure]:
    """Views of `lines`, of `more` lines, and, unless it is 0, once of `most` lines, for their memory."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        root = Path(directory)
        log, longer = root / "access.log", root / "longer.log"
        write(log, lines, seconds=86_400, visitors=10_000)
        write(longer, more, seconds=7 * 86_400)
        first, again, long, bare, demo = [], [], [], [], []
        goaccess: list[float] = []
        for number in range(runs):
            cache = root / f"cache-{number}"
            bare.append(timed(BARE_SESSION, dict(os.environ))[0])
            first.append(_viewed(log, cache))
            again.append(_viewed(log, cache))
            long.append(_viewed(longer, cache))
            if shutil.which("goaccess"):
                goaccess.append(reported(longer))
            demo.append(_demo(root / f"home-{number}"))
            shutil.rmtree(cache)
        figures = [
            *_of_views(f"view of {lines:,} lines", first),
            *_of_views("the same view again", again),
            Figure("reference: a bare PySpark session, s", bare),
            _ratio("ratio of the first figures to it", [each.first for each in first], bare),
            _ratio("ratio of the exact figures to it", [each.exact for each in first], bare),
            _ratio("ratio of the view again to it", [each.exact for each in again], bare),
            *_of_views(f"view of {more:,} lines", long),
            Figure("demo: first numbers in the dashboard's tables, s", demo),
        ]
        if goaccess:
            figures.append(Figure(f"reference: GoAccess, {more:,} lines, s", goaccess))
            figures.append(_ratio("ratio of the view to GoAccess", [each.exact for each in long], goaccess))
        if most:
            write(longer, most, seconds=7 * 86_400)
            figures += _of_views(f"view of {most:,} lines", [_viewed(longer, root / "cache")])
    return figures


@dataclass(frozen=True)
class Viewed:
    """Seconds until the first figures, and until all are exact and the command has ended; MiB of its processes."""

    first: float
    exact: float
    memory: float


def _of_views(name: str, views: Sequence[Viewed]) -> list[Figure]:
    return [
        Figure(f"{name}: first figures, s", [each.first for each in views]),
        Figure(f"{name}: all exact, s", [each.exact for each in views]),
        Figure(f"{name}: memory of all processes, MiB", [each.memory for each in views]),
    ]


def _ratio(name: str, ours: Sequence[float], others: Sequence[float]) -> Figure:
    return Figure(name, [our / other for our, other in zip(ours, others, strict=True)])


def _viewed(log: Path, cache: Path) -> Viewed:
    begun, first = time.monotonic(), 0.0
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemark", "view", "--no-dashboard", str(log)],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with used_by(process.pid) as used:
        for line in process.stdout:
            if line.startswith("requests") and any(map(str.isdigit, line)):
                first = first or time.monotonic() - begun
        status = process.wait()
    assert status == 0, f"the view ended with {status}"
    assert first, "the view printed no figures"
    return Viewed(first, time.monotonic() - begun, used.most_together)


def _demo(home: Path) -> float:
    """Seconds until the dashboard answers and the tables that it shows have lines."""
    settings = Settings.of(home=home)
    environment = os.environ | {"TIDEMARK_BROKER_PORT": "0", "TIDEMARK_DASHBOARD_PORT": "0"}
    log = settings.tables / "gold/visitors_by_country/_delta_log" / f"{1:020}.json"
    with _running(["--home", str(home), "demo"], environment) as (process, begun):
        _await(process, lambda: log.exists() and dashboard.is_healthy(settings))
        return time.monotonic() - begun


def _await(process: subprocess.Popen[str], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not done():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the demo did not come to its first numbers")
        time.sleep(0.05)


@contextmanager
def _running(
    arguments: list[str], environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], float]]:
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemark", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process, begun
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
