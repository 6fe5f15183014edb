"""The pipeline on a real standalone cluster: equal tables, tasks on every worker, a killed worker, a killed driver; and
anonymous lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from benchmarks.standalone import standalone
from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_process
from tests.pipeline.recount import recount
from tidemark.local.process import wait_until
from tidemark.service.forget import forget_all_of
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

WORKERS = ("127.0.0.2", "127.0.0.3")
LINES = 6_000

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def lines() -> list[tuple[str, bytes]]:
    traffic = Traffic(start=1_780_000_200, rate=30, seconds=LINES // 30, seed=5, visitors=300, late=0.1)
    return [("default", line) for block in blocks(traffic) for line in block.lines]


# Two visitors of a day, whose lines are in several partitions.
ANONYMOUS = "[sites.quiet.privacy]\nmode = 'anonymous'\n"
QUIET = [
    (
        "quiet",
        f'{client} - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "Firefox/140.0"'.encode(),
    )
    for client in ("198.51.100.77", "198.51.100.78")
]


def received(settings: Settings) -> int:
    if not (settings.tables / "quality" / "accounts" / "_delta_log").exists():
        return 0
    return sum(int(str(row[0])) for row in rows(settings, "quality.accounts", ["received"]))


def await_received(settings: Settings, process: subprocess.Popen[str], wanted: int) -> None:
    def enough() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return received(settings) >= wanted

    if not wait_until(enough, 120, interval=0.5):
        log = settings.logs / "spark.log"
        log_end = log.read_text(encoding="utf-8")[-3000:] if log.exists() else ""
        raise AssertionError(f"only {received(settings)} of {wanted} lines came; Spark said: {log_end}")


def test_equal_tables_though_a_worker_and_then_the_driver_are_killed(
    broker: Settings, tmp_path: Path
) -> None:
    pairs = lines()
    third = len(pairs) // 3
    with standalone(tmp_path / "cluster", WORKERS) as cluster:
        settings = fresh(
            broker, tmp_path, topic_partitions=4, batch_lines=2_000, local_rows=1_000, master=cluster.master,
            executor_python=str(cluster.executor_python()), spark_options=cluster.spark_options(),
        )  # fmt: skip
        no_tidemark = subprocess.run(
            [settings.spark.executor_python, "-c", "import tidemark.settings"], capture_output=True
        )
        assert no_tidemark.returncode != 0, "the code must come from the driver"

        settings.home.mkdir()
        (settings.home / "tidemark.toml").write_text(ANONYMOUS)
        produce(settings, [*QUIET, *pairs[: third // 2], *QUIET, *pairs[third // 2 : third]])
        driver = run_process(settings, once=False)
        try:
            await_received(settings, driver, third + 4)
            assert set(cluster.tasks()) == set(WORKERS), "both workers must have worked"

            cluster.kill_worker(WORKERS[1])
            produce(settings, pairs[third : 2 * third])
            await_received(settings, driver, 2 * third + 4)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()

        cluster.start_worker(WORKERS[1], cores=1)
        produce(settings, pairs[2 * third :])
        again = run_process(settings)
        output, _ = again.communicate(timeout=120)
        assert again.returncode == 0, output

    requests = rows(settings, "silver.requests", ["site", "client_ip", "user_agent", "visitor_id"])
    quiet = [row for row in requests if row[0] == "quiet"]
    assert (len(quiet), len(set(quiet))) == (4, 2) and {row[1:3] for row in quiet} == {(None, None)}
    [salt] = json.loads((settings.home / "salts.json").read_text())["salts"].values()
    files = (path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink())
    assert [path.name for path in files if salt["salt"].encode() in path.read_bytes()] == ["salts.json"]
    forget_all_of(settings, "quiet")
    assert_equal(settings, recount(pairs))
