"""Speed and memory of the pipeline as its tables grow, and the time of the dashboard's pages.

A month of traffic of up to a million visitors waits in Kafka and is processed in small batches, so that every table
gets thousands of commits, with upkeep beside it as usual. The second tenth of the lines is compared with the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from deltalake import DeltaTable

from benchmarks import panels
from benchmarks.cpu import used_by
from benchmarks.drain import write
from benchmarks.figures import Figure
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.settings import Settings

DAYS = 30
BATCH_LINES = 10_000
# The page Funnels draws the first one that is declared.
FUNNEL = """[funnels.buying]
steps = ["/products*", "/cart", "/checkout"]
within = "24h"
"""
_PATIENCE_SECONDS = 4 * 3600.0


def measure(*, lines: int) -> list[Figure]:
    """Rates and batch times of the second and the last tenth, the driver's memory, and seconds of each page."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "access.log"
        write(log, lines, seconds=DAYS * 86_400, visitors=1_000_000)
        home = Settings.of(home=Path(directory) / "home", broker_port=0, batch_lines=BATCH_LINES)
        with broker.running(home) as settings:
            import_files([str(log)], Options(settings.kafka, say=lambda text: None))
            log.unlink()
            memory = _worked_off(settings, lines)
        accounts = _rows(settings, "quality/accounts", ["received", "started_at", "committed_at"])
        accounts = accounts.sort_values("committed_at")
        tenths = [_tenth(accounts, lines, number) for number in range(10)]
        second, last = tenths[1], tenths[9]
        commits = DeltaTable(str(settings.tables / "gold/visitors_by_country")).version()
        (settings.home / "tidemark.toml").write_text(FUNNEL, encoding="utf-8")
        pages = panels.drawn(settings.home, f"path={_most_requested(settings)}")
    return [
        Figure("each tenth, lines/s", [rate for rate, _ in tenths]),
        Figure("each tenth, p50 of a batch, ms", [millis for _, millis in tenths]),
        Figure("second tenth, lines/s", [second[0]]),
        Figure("last tenth, lines/s", [last[0]]),
        Figure("ratio", [last[0] / second[0]]),
        Figure("second tenth, p50 of a batch, ms", [second[1]]),
        Figure("last tenth, p50 of a batch, ms", [last[1]]),
        Figure("commits of gold.visitors_by_country", [float(commits)]),
        Figure("most resident memory of a process, MiB", [memory]),
        *pages,
    ]


def _worked_off(settings: Settings, lines: int) -> float:
    """Runs the pipeline until every flow has processed all lines. Returns the peak MiB of its largest process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemark", "run"],
        env=os.environ | settings.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        with used_by(process.pid) as used:
            while not _done(settings, lines):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the pipeline did not get to the end")
                time.sleep(5)
        return used.most_resident
    finally:
        process.terminate()
        process.wait(60)


def _done(settings: Settings, lines: int) -> bool:
    if not (settings.tables / "quality/accounts/_delta_log").exists():
        return False
    accounts = _rows(settings, "quality/accounts", ["received", "accepted"])
    progress = _rows(settings, "quality/progress", ["flow", "rows"])
    derived = progress.loc[progress["flow"] == "activity", "rows"].sum()
    return bool(accounts["received"].sum() == lines and derived == accounts["accepted"].sum())


def _tenth(accounts: pd.DataFrame, lines: int, number: int) -> tuple[float, float]:
    """Lines per second and median milliseconds of a batch in a tenth of the lines, counted from 0."""
    done = accounts["received"].cumsum()
    batches = accounts[(done > lines * number / 10) & (done <= lines * (number + 1) / 10)]
    took = (batches["committed_at"].max() - batches["started_at"].min()).total_seconds()
    millis = (batches["committed_at"] - batches["started_at"]).dt.total_seconds() * 1000
    return batches["received"].sum() / took, float(millis.median())


def _most_requested(settings: Settings) -> str:
    pages = _rows(settings, "gold/pages", ["path", "pageviews"])
    return str(pages.groupby("path")["pageviews"].sum().idxmax())


def _rows(settings: Settings, table: str, columns: list[str]) -> pd.DataFrame:
    frame: pd.DataFrame = (
        DeltaTable(str(settings.tables / table)).to_pyarrow_table(columns=columns).to_pandas()
    )
    return frame
