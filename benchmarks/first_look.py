"""Time from the command to figures: `tidemark view` of a log file, the same view again, and `tidemark demo`. The
reference is GoAccess's report on the same file, where GoAccess is installed.

Every run has an empty cache of views, or a new home. The JVM libraries and class archives of `tidemark prepare` are in
the cache.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.drain import reported, write
from benchmarks.figures import Figure
from tidemark.local import dashboard
from tidemark.local.jars import user_cache
from tidemark.settings import Settings

_PATIENCE_SECONDS = 180.0


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Seconds until the first figures, until all are exact, of the second view, and of the demo."""
    first, exact, again, goaccess, demo = [], [], [], [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log"
        write(log, lines, seconds=86_400, visitors=10_000)
        for number in range(runs):
            cache = Path(directory) / f"cache-{number}"
            some, all_exact = _view(log, cache)
            first.append(some)
            exact.append(all_exact)
            again.append(_view(log, cache)[1])
            if shutil.which("goaccess"):
                goaccess.append(reported(log))
            demo.append(_demo(Path(directory) / f"home-{number}"))
    figures = [
        Figure(f"view of {lines:,} lines: first figures, s", first),
        Figure(f"view of {lines:,} lines: all exact, s", exact),
        Figure("the same view again: all exact, s", again),
        Figure("demo: first numbers in the dashboard's tables, s", demo),
    ]
    if goaccess:
        figures.append(Figure("reference: GoAccess reports on the file, s", goaccess))
        ratios = [ours / other for ours, other in zip(exact, goaccess, strict=True)]
        figures.append(Figure("ratio of `all exact` to GoAccess", ratios))
    return figures


def _view(log: Path, cache: Path) -> tuple[float, float]:
    """Seconds until the number of visitors is printed for the first time, and until all figures are exact."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "TIDEMARK_JVM_CACHE": str(user_cache())}
    seen: dict[str, float] = {}
    with _running(["view", "--no-browser", str(log)], environment) as (process, begun):
        assert process.stdout is not None
        for line in process.stdout:
            if any(map(str.isdigit, line)):
                seen.setdefault(
                    "exact" if "exact after" in line else line.split()[0], time.monotonic() - begun
                )
            if seen.keys() >= {"visitors", "exact"}:
                return seen["visitors"], seen["exact"]
    raise RuntimeError("the view ended before its figures were exact")


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
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process, begun
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
