"""A Spark standalone cluster processing the same lines as one process: rate, shares of the workers, time to recover.

One master and two workers of one core each, with separate addresses, are compared with one process of two
threads. On one machine this measures the cost of distribution, not its gain.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer
from deltalake import DeltaTable

from benchmarks.drain import write
from benchmarks.figures import Figure
from benchmarks.standalone import Standalone, standalone
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

WORKERS = ("127.0.0.2", "127.0.0.3")
# Columns with counts, without times of processing.
GOLD = {
    "gold/visitors_by_country": ["site", "window_start", "country", "visitors", "pageviews", "requests"],
    "gold/traffic": ["site", "window_start", "visitors", "pageviews", "requests", "bytes"],
    "gold/pages": ["site", "window_start", "path", "visitors", "pageviews"],
}


def measure(*, lines: int, runs: int) -> list[Figure]:
    """Lines per second of both, and the cluster's tasks per worker and seconds to recover."""
    alone, spread, shares, without_worker, without_driver = [], [], [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="tidemark-cluster-") as name:
            directory = Path(name)
            log = directory / "access.log"
            write(log, lines)
            with (
                standalone(directory / "cluster", WORKERS) as cluster,
                broker.running(Settings.of(home=directory / "kafka", broker_port=0)) as kafka_home,
            ):
                base = Settings.of(
                    home=directory / "local",
                    bootstrap_servers=kafka_home.kafka.bootstrap_servers,
                    visitor_key="the same for both",
                    topic_partitions=4,
                )
                import_files([str(log)], Options(base.kafka, say=lambda text: None))
                on_cluster = base.changed(
                    home=directory / "spread",
                    master=cluster.master,
                    spark_options=cluster.spark_options(),
                    executor_python=str(cluster.executor_python()),
                )
                alone.append(drained(base.changed(master="local[2]"), lines))
                spread.append(drained(on_cluster, lines))
                assert counted(base) == counted(on_cluster), "the tables differ"
                tasks: Counter[str] = cluster.tasks()
                shares.append(100 * min(tasks[worker] for worker in WORKERS) / tasks.total())
                after_worker, after_driver = recovered(on_cluster, cluster)
                without_worker.append(after_worker)
                without_driver.append(after_driver)
    return [
        Figure("drain, one process with two threads, lines/s", alone),
        Figure("drain, two workers of one core, lines/s", spread),
        Figure("ratio", [b / a for a, b in zip(alone, spread, strict=True)]),
        Figure("tasks on the worker that had fewer, %", shares),
        Figure("worker killed: next commit after, s", without_worker),
        Figure("driver killed: next commit after, s", without_driver),
    ]


def drained(settings: Settings, lines: int) -> float:
    """Lines per second of `tidemark run --once`, from the first batch's start to the last commit."""
    process = start(settings, "--once")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    accounts = DeltaTable(str(settings.tables / "quality/accounts")).to_pyarrow_table().to_pandas()
    progress = DeltaTable(str(settings.tables / "quality/progress")).to_pyarrow_table().to_pandas()
    assert accounts["received"].sum() == lines, "not every line arrived"
    last = max(accounts["committed_at"].max(), progress["recorded_at"].max())
    return float(lines / (last - accounts["started_at"].min()).total_seconds())


def recovered(settings: Settings, cluster: Standalone) -> tuple[float, float]:
    """Seconds from killing a worker, then the driver, to the next commit. Lines arrive continuously; a killed
    driver is started again at once."""
    driver = start(settings)
    try:
        until_commit(settings, datetime.now(UTC))
        killed = datetime.now(UTC)
        cluster.kill_worker(WORKERS[1])
        after_worker = until_commit(settings, killed)
        killed = datetime.now(UTC)
        kill(driver)
        driver = start(settings)
        return after_worker, until_commit(settings, killed)
    finally:
        kill(driver)


def until_commit(settings: Settings, since: datetime) -> float:
    """Sends lines until a batch that began after `since` is committed; the seconds from then to the commit."""
    producer = Producer(kafka.client_config(settings.kafka))
    generated = blocks(Traffic(start=int(time.time()), rate=500, seconds=300, seed=2), truth=False)
    commits: list[datetime] = []

    def committed() -> bool:
        for line in next(generated).lines:
            producer.produce(settings.kafka.topic, line)
        producer.flush(10)
        rows = DeltaTable(str(settings.tables / "quality/accounts")).to_pyarrow_table(
            columns=["started_at", "committed_at"], filters=[("started_at", ">", since)]
        )
        commits.extend(rows["committed_at"].to_pylist())
        return bool(commits)

    assert wait_until(committed, 180, interval=0.2), "nothing was committed"
    return (min(commits) - since).total_seconds()


def counted(settings: Settings) -> dict[str, list[tuple[object, ...]]]:
    """The gold tables' rows, in order."""
    tables = {}
    for name, columns in GOLD.items():
        data = DeltaTable(str(settings.tables / name)).to_pyarrow_table(columns=columns)
        tables[name] = sorted(zip(*(data[column].to_pylist() for column in columns), strict=True))
    return tables


def start(settings: Settings, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidemark", "run", *arguments],
        env=os.environ | settings.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
