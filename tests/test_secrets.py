"""Secrets are planted in a real run, with TLS and SASL, and searched for in every output and file."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from tests.app.test_pages import show
from tests.conftest import QUICK_JVM
from tests.kafka.secured import secured_broker
from tests.pipeline.harness import produce, run_process
from tests.recovery.killing import traffic
from tidemark.kafka import client as kafka
from tidemark.local.records import read_record
from tidemark.settings import Settings

SECRETS = ("planted", "5ecre7")
LINES = 300


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with secured_broker(tmp_path) as secured:
        yield secured.changed(
            visitor_key="5ecre7-visitor-key-of-32-letters",
            alert_to="json://127.0.0.1:1/5ecre7",
            kafka_client_options="sasl.oauthbearer.extensions=word=5ecre7",
            kafka_spark_options="ssl.key.password=5ecre7",
            spark_options="spark.hadoop.fs.s3a.secret.key=5ecre7 spark.executor.memory=512m",
            metrics_port=0,
            log_format="json",
            log_level="debug",
            quality_interval_seconds=2.0,
            driver_java_options=QUICK_JVM,
        )


def shown_by(settings: Settings, process: subprocess.Popen[str]) -> dict[str, str]:
    """What can be seen of a running pipeline, by where it is seen."""
    record = json.loads((settings.run_directory / "pipeline.json").read_text())
    seen = {
        f"arguments of {one.pid}": " ".join(arguments)
        for one, arguments in of_family(process, psutil.Process.cmdline)
    }
    assert len(seen) >= 2  # its own, and those of Spark's JVM
    for page in ("metrics", "health"):
        with urllib.request.urlopen(f"{record['endpoint']}/{page}", timeout=10) as answer:
            seen[page] = answer.read().decode()
    for arguments in (["status"], ["status", "--json"], ["run"]):  # the last is refused: one runs already
        done = subprocess.run(
            [sys.executable, "-m", "tidemark", *arguments, "--home", str(settings.home)],
            env={**psutil.Process().environ(), **settings.environment()}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        seen[" ".join(arguments)] = done.stdout + done.stderr
    at = show("pipeline", settings.home)
    seen["Pipeline page"] = " ".join(
        str(block.value) for kind in ("markdown", "metric", "caption") for block in at.get(kind)
    )
    return seen


def of_family(
    process: subprocess.Popen[str], look: Callable[[psutil.Process], Any]
) -> Iterator[tuple[psutil.Process, Any]]:
    """What `look` sees of the process and of all that it started; of Spark's workers some end meanwhile."""
    for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield one, look(one)


def listening(process: subprocess.Popen[str]) -> set[str]:
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for _, connections in of_family(process, psutil.Process.net_connections)
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }


def await_lines(settings: Settings, process: subprocess.Popen[str]) -> None:
    accounts = settings.tables / "quality" / "accounts"
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        if (accounts / "_delta_log").exists():
            rows = DeltaTable(str(accounts)).to_pyarrow_table(columns=["received"])["received"].to_pylist()
            record = read_record(settings.run_directory / "pipeline.json")
            if (
                sum(rows) == LINES
                and record.get("state") == "running"
                and (settings.tables / "quality" / "progress").exists()
            ):
                return
        time.sleep(0.3)
    raise AssertionError("the lines did not come")


@pytest.mark.slow
def test_secrets_show_nowhere_and_only_loopback_listens(settings: Settings) -> None:
    kafka.ensure_topic(settings.kafka, settings.kafka.topic)
    produce(settings, traffic(seed=1, lines=2 * LINES)[:LINES])
    process = run_process(settings, once=False)
    seen: dict[str, str] = {}
    try:
        await_lines(settings, process)
        time.sleep(6)  # a write of the history, and a run of the expectations
        seen = shown_by(settings, process)
        addresses = listening(process)
    finally:
        process.terminate()
        seen["log"], _ = process.communicate(timeout=60)
    assert process.returncode == 0, seen["log"]

    files = [path for path in settings.home.rglob("*") if path.is_file() and path.name != "visitor.key"]
    assert {path.relative_to(settings.home).parts[0] for path in files} >= {
        "tables",
        "checkpoints",
        "logs",
        "run",
    }
    seen |= {str(path): path.read_bytes().decode("latin-1") for path in files}
    actual = {where: secret for where, text in seen.items() for secret in SECRETS if secret in text}
    assert actual == {}
    assert addresses == {"127.0.0.1"}

    # The JVM and its libraries write lines of their own as they start and end.
    written = [line for line in seen["log"].splitlines() if line.startswith("{")]
    events = [json.loads(line) for line in written]
    batches = [event for event in events if event["message"] == "batch done" and event["flow"] == "requests"]
    assert sum(event["accepted"] + event["rejected"] for event in batches) == LINES
    assert (
        f'tidemark_lines_total{{outcome="accepted"}} {float(sum(e["accepted"] for e in batches))}'
        in seen["metrics"]
    )
    assert json.loads(seen["health"])["status"] == "ok"
    assert 'tidemark_failed_expectations{severity="critical"} 0.0' in seen["metrics"]
