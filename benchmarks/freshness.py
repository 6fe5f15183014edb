"""Age of the newest line counted in gold under a steady load, seen by a Delta reader without Spark.

The load is open-loop: each line has a due time, independent of the pipeline, and its age counts from then. Lines are
made before, so that making them takes no time from the pipeline.
Every 0.1 s, the number of requests counted in gold.visitors_by_country identifies the newest
counted line, because the lines of one partition are counted in order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow.compute as pc
from confluent_kafka import Producer
from deltalake import DeltaTable

from benchmarks.figures import Figure
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.operate import status
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

Beside = Callable[[Settings], AbstractContextManager[None]]
EVERY_SECONDS = 0.1
TIDEMARK = [sys.executable, "-m", "tidemark"]
# Until the pipeline runs; lines of as many more seconds than needed are made.
_START_SECONDS = 20


@dataclass
class Load:
    """The lines of a file, sent at `rate` per second; `sent` is the number due since `begun`."""

    settings: Settings
    rate: int
    log: Path
    begun: float = 0.0
    sent: int = 0
    late: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        producer = Producer(
            {
                **kafka.client_config(self.settings.kafka),
                "linger.ms": 5,
                "compression.type": "lz4",
                # A minute of lines at the highest rate: a broker that pauses must not end the load.
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
            }
        )
        with self.log.open("rb") as lines:
            self.begun = time.time()
            while not self._stop.is_set():
                due = int((time.time() - self.begun) * self.rate)
                for line in islice(lines, due - self.sent):
                    # One partition keeps the order, so that a count identifies a line.
                    producer.produce(self.settings.kafka.topic, line.rstrip(b"\n"), partition=0)
                self.sent = max(due, self.sent)
                producer.poll(0)
                self.late = max(self.late, time.time() - self.begun - self.sent / self.rate)
                time.sleep(0.004)
        producer.flush()

    def stop(self) -> None:
        self._stop.set()


def at_rates(*, rates: Sequence[int], seconds: int, warm_up: int) -> list[Figure]:
    """The same for several rates, one after the other."""
    return [figure for rate in rates for figure in measure(rate=rate, seconds=seconds, warm_up=warm_up)]


def with_dashboard(*, rate: int, seconds: int, warm_up: int) -> list[Figure]:
    """The same with the dashboard open."""
    return measure(rate=rate, seconds=seconds, warm_up=warm_up, beside=_viewer)


def measure(*, rate: int, seconds: int, warm_up: int, beside: Beside | None = None) -> list[Figure]:
    """Ages in seconds while the pipeline warms up and after, and per minute, which shows whether they grow; `beside` is
    what runs meanwhile."""
    beside = beside or (lambda settings: nullcontext())
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        log = Path(directory) / "load.log"
        _write(log, rate, warm_up + seconds + _START_SECONDS)
        settings = Settings.of(home=Path(directory) / "home", broker_port=0, dashboard_port=0)
        with broker.running(settings) as there, running_pipeline(there), beside(there):
            return _watched(there, log, rate, seconds, warm_up)


def _write(log: Path, rate: int, seconds: int) -> None:
    """Writes the lines of so many seconds from about the time at which they are sent."""
    traffic = Traffic(start=int(time.time()) + _START_SECONDS, rate=rate, seconds=seconds, seed=1)
    with log.open("wb") as file:
        for block in blocks(traffic, truth=False):
            file.writelines(line + b"\n" for line in block.lines)


def _watched(settings: Settings, log: Path, rate: int, seconds: int, warm_up: int) -> list[Figure]:
    load = Load(settings, rate, log)
    sender = threading.Thread(target=load.run)
    table = DeltaTable(str(settings.tables / "gold/visitors_by_country"))
    times, ages = [], []
    sender.start()
    try:
        while not load.begun:
            time.sleep(0.01)
        begun = time.time()
        before: dict[str, float] = {}
        while (now := time.time()) < begun + warm_up + seconds:
            table.update_incremental()
            counted = pc.sum(table.to_pyarrow_table(columns=["requests"])["requests"]).as_py() or 0
            now = time.time()
            if now > begun + warm_up:
                before = before or cpu()
            times.append(now - begun)
            ages.append(now - load.begun - counted / rate)
            time.sleep(EVERY_SECONDS)
        used = {name: (after - before.get(name, 0.0)) / seconds for name, after in cpu().items()}
    finally:
        load.stop()
        sender.join()
    for name, cores in used.items():
        print(f"  cores used by {name}: {cores:.2f}", flush=True)
    print(f"  latest send: {load.late:.2f} s after its time", flush=True)
    at, age = np.asarray(times), np.asarray(ages)
    warm, minutes = at > warm_up, at // 60
    for minute in np.unique(minutes):
        of = age[minutes == minute]
        p50, p95 = np.percentile(of, [50, 95])
        print(
            f"  minute {int(minute) + 1:2}: p50 {p50:.2f} s, p95 {p95:.2f} s, most {of.max():.2f} s",
            flush=True,
        )
    _say_batches(settings, warm_up)
    label = f"freshness at {rate:,} lines/s"
    parts = {f"the first {warm_up} s": ~warm, "warm": warm}
    return [
        Figure(f"{label}, {part}, p{percent}, s", [float(np.percentile(age[chosen], percent))])
        for part, chosen in parts.items()
        for percent in (50, 95)
    ]


def _say_batches(settings: Settings, warm_up: int) -> None:
    """Prints durations and rows of each flow's batches, without the first ones."""
    progress = DeltaTable(str(settings.tables / "quality/progress")).to_pyarrow_table().to_pandas()
    settled = progress[
        progress["recorded_at"] > progress["recorded_at"].min() + pd.Timedelta(seconds=warm_up)
    ]
    for flow, batches in settled.groupby("flow"):
        p50, p95 = np.percentile(batches["duration_ms"], [50, 95])
        print(
            f"  {len(batches):,} batches of {flow}: p50 {p50:,.0f} ms, p95 {p95:,.0f} ms,"
            f" {batches['rows'].median():,.0f} rows",
            flush=True,
        )


@contextmanager
def running_pipeline(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """A pipeline in a separate process; yields once it reports that it runs."""
    with started(settings, "run") as process:
        deadline = time.time() + 120
        while status.describe(settings)["parts"]["pipeline"]["state"] != "running":
            if time.time() > deadline:
                raise TimeoutError("the pipeline did not start in 120 s")
            time.sleep(0.1)
        yield process


@contextmanager
def _viewer(settings: Settings) -> Iterator[None]:
    """The dashboard's Live page open in a headless browser."""
    from selenium import webdriver

    from tidemark.local import dashboard

    with started(settings, "dashboard"):
        while not dashboard.is_healthy(settings):
            time.sleep(0.2)
        options = webdriver.ChromeOptions()
        for option in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--window-size=1280,1600",
        ):
            options.add_argument(option)
        # Without a path, Selenium fetches a driver from the internet.
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        browser = webdriver.Chrome(options=options, service=service)
        try:
            browser.get(dashboard.url(settings))
            yield
        finally:
            browser.quit()


@contextmanager
def started(settings: Settings, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of tidemark in a separate process, which ends with the context."""
    options = ["--home", str(settings.home)]
    process = subprocess.Popen(
        [*TIDEMARK, command[0], *options, *command[1:]],
        stdout=subprocess.DEVNULL,
        env=os.environ | settings.environment(),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def cpu() -> dict[str, float]:
    """CPU seconds so far of each kind of process."""
    kinds = {
        "SparkSubmit": "spark",
        "pyspark.daemon": "spark's python",
        "kafka.Kafka": "broker",
        "streamlit": "dashboard",
        "chrom": "browser",
        "tidemark run": "driver",
        "benchmarks": "load",
    }
    used: dict[str, float] = {}
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        line = " ".join(process.info["cmdline"] or [])
        kind = next((kind for sign, kind in kinds.items() if sign in line), None)
        if kind and process.info["cpu_times"]:
            used[kind] = (
                used.get(kind, 0.0) + process.info["cpu_times"].user + process.info["cpu_times"].system
            )
    return used
