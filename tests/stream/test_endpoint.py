"""/metrics and /health over real HTTP, and the alert rules that rest on them."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tidemark.contract.quality_tables import ACCOUNTS, PROGRESS
from tidemark.contract.store import Commit
from tidemark.errors import PlatformError
from tidemark.local.directories import prepare_home
from tidemark.local.process import wait_until
from tidemark.local.records import read_record
from tidemark.operate.status import describe, lines
from tidemark.settings import Settings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.store.sizes import sizes
from tidemark.stream.endpoint import serving
from tidemark.stream.progress import Progress, Pulse, complaints

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"
WAITING = 7


class Scene:
    """A pipeline's progress behind a real endpoint, with a query that can be told to end."""

    def __init__(self, settings: Settings) -> None:
        prepare_home(settings)
        lakehouse = lakehouse_of(settings)
        self.store = DeltaRsStore(lakehouse)
        self.store.ensure(PROGRESS)
        self.lag: int | None = 0
        self.query = SimpleNamespace(isActive=True, lastProgress=None)
        self.progress = Progress(
            settings, self.store, {"requests": lambda: self.lag}, sizes(lakehouse, [ACCOUNTS, PROGRESS])
        )
        self.progress.watch("requests", self.query)  # type: ignore[arg-type]
        self.settings = settings

    @contextmanager
    def served(self) -> Iterator[str]:
        with serving(self.settings.watching, self.progress.metrics.registry, self.progress.health) as address:
            self.progress.running(address)
            yield address

    def batch(self, **facts: Any) -> None:
        started = datetime.now(UTC) - timedelta(seconds=0.3)
        self.progress.batch_done("requests", 1, started, facts)


@pytest.fixture
def scene(home: Settings) -> Scene:
    return Scene(home.changed(metrics_port=0, stale_seconds=60.0))


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def values(text: str) -> dict[str, float]:
    """name{label values} -> value of every sample."""
    return {
        ",".join([sample.name, *(v for k, v in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_tells_rates_lag_freshness_and_what_became_of_lines(scene: Scene) -> None:
    event = datetime(2026, 5, 17, 12, tzinfo=UTC)
    with scene.served() as address:
        before = values(get(f"{address}/metrics")[1])
        scene.lag = WAITING
        scene.batch(
            rows=10, accepted=7, rejected=2, duplicate=1, late=3, newest_event_time=event,
            newest_kafka_timestamp=datetime.now(UTC) - timedelta(seconds=5),
        )  # fmt: skip
        scene.batch(rows=20, accepted=20, rejected=0, duplicate=0, late=0, newest_event_time=event)
        scene.progress.running(address)
        result = values(get(f"{address}/metrics")[1])

    assert before["tidemark_lines_total,rejected"] == 0
    assert result["tidemark_lines_total,accepted"] == 27
    assert result["tidemark_lines_total,rejected"] == 2
    assert result["tidemark_lines_total,duplicate"] == 1
    assert result["tidemark_late_lines_total"] == 3
    assert result["tidemark_flow_rows_total,requests"] == 30
    assert result["tidemark_flow_rows_per_second,requests"] == 3
    assert result["tidemark_flow_lag_rows,requests"] == WAITING
    assert result["tidemark_flow_newest_event_timestamp_seconds,requests"] == event.timestamp()
    assert result["tidemark_flow_batch_duration_seconds_count,requests"] == 2
    assert 0.6 <= result["tidemark_flow_batch_duration_seconds_sum,requests"] < 10
    assert result["tidemark_flow_active,requests"] == result["tidemark_healthy"] == 1
    assert "tidemark_flow_state_rows,requests" not in result


def test_tables_are_measured_at_their_newest_version(scene: Scene) -> None:
    row = dict.fromkeys(PROGRESS.column_names) | {"flow": "requests", "recorded_at": datetime.now(UTC)}
    rows = pa.Table.from_pylist([row, row], PROGRESS.arrow_schema)
    with scene.served() as address:
        empty = values(get(f"{address}/metrics")[1])
        scene.store.append_arrow(PROGRESS, rows, Commit("test", 0))
        scene.store.append_arrow(PROGRESS, rows, Commit("test", 1))
        result = values(get(f"{address}/metrics")[1])
    assert empty["tidemark_table_rows,quality.progress"] == 0
    assert result["tidemark_table_rows,quality.progress"] == 4
    assert result["tidemark_table_bytes,quality.progress"] > 500
    assert "tidemark_table_rows,quality.accounts" not in result, "a table that is not there yet"


def test_expectations_count_as_failed_until_they_are_met(scene: Scene) -> None:
    def result(expectation: str, *, success: bool, severity: str = "critical") -> dict[str, Any]:
        row = {"table": "silver.requests", "expectation": expectation, "column": None}
        return {**row, "success": success, "severity": severity}

    def failed() -> dict[str, float]:
        known = values(get(f"{address}/metrics")[1])
        return {
            severity: known[f"tidemark_failed_expectations,{severity}"]
            for severity in ("critical", "warning")
        }

    with scene.served() as address:
        assert failed() == {"critical": 0, "warning": 0}
        fresh = result("fresh", success=False, severity="warning")
        scene.progress.metrics.checked([result("balanced", success=False), fresh])
        assert failed() == {"critical": 1, "warning": 1}
        scene.progress.metrics.checked([])
        assert failed() == {"critical": 1, "warning": 1}, "what was not checked again stays"
        scene.progress.metrics.checked([result("balanced", success=True)])
        assert failed() == {"critical": 0, "warning": 1}


def test_runs_beside_the_flows_that_fail_are_counted_and_reported_until_one_succeeds(scene: Scene) -> None:
    def known() -> tuple[float, dict[str, str], list[str]]:
        scene.progress.running(address)
        state = describe(scene.settings)
        failing = [line for line in lines(state) if "failed" in line]
        count = values(get(f"{address}/metrics")[1])["tidemark_failed_runs_total,quality"]
        return count, state["troubles"], failing

    metrics = scene.progress.metrics
    with scene.served() as address:
        assert known() == (0, {}, [])
        metrics.ran("quality", "no table")
        metrics.ran("quality", "no such table")
        metrics.ran("upkeep", "")
        failing = ["quality    its last run failed: no such table"]
        assert known() == (2, {"quality": "no such table"}, failing)
        metrics.ran("quality", "")
        assert known() == (2, {}, [])


def test_health_is_ok_until_a_flow_stops(scene: Scene) -> None:
    with scene.served() as address:
        status, body = get(f"{address}/health")
        assert (status, json.loads(body)["status"]) == (200, "ok")
        scene.query.isActive = False
        status, body = get(f"{address}/health")
        assert (status, json.loads(body)["reasons"]) == (503, ["flow requests has stopped"])
        assert values(get(f"{address}/metrics")[1])["tidemark_healthy"] == 0
        assert get(f"{address}/")[0] == 404


def test_a_starting_pipeline_is_not_healthy_yet(scene: Scene) -> None:
    assert scene.progress.health()["reasons"] == ["the pipeline is starting"]


@pytest.mark.parametrize(
    "pulse, complaint",
    [
        (Pulse(active=True, lag=0, idle=900, unknown=0), ""),
        (Pulse(active=True, lag=5, idle=59, unknown=0), ""),
        (Pulse(active=True, lag=5, idle=61, unknown=0), "committed nothing for 61 s while 5 rows wait"),
        (Pulse(active=True, lag=None, idle=0, unknown=59), ""),
        (Pulse(active=True, lag=None, idle=0, unknown=61), "its source does not answer"),
        (Pulse(active=False, lag=0, idle=0, unknown=0), "has stopped"),
    ],
)
def test_what_makes_a_flow_stale(pulse: Pulse, complaint: str) -> None:
    result = complaints("running", {"requests": pulse}, stale_seconds=60)
    assert complaint in result[0] if complaint else result == []


def test_nothing_is_served_unless_asked_for(home: Settings) -> None:
    scene = Scene(home)
    with scene.served() as address:
        assert address == ""


def test_a_client_that_hangs_up_leaves_no_trace_in_the_output(
    scene: Scene, capfd: pytest.CaptureFixture[str]
) -> None:
    event, gone = threading.Event(), threading.Event()

    def health() -> dict[str, Any]:
        event.set()
        assert gone.wait(60)
        return scene.progress.health()

    with serving(scene.settings.watching, scene.progress.metrics.registry, health) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert event.wait(60)
            # Closed by a reset, so that the answer meets a connection that is gone.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.set()
        assert get(f"{address}/metrics")[0] == 200
    assert wait_until(lambda: not any("process_request" in t.name for t in threading.enumerate()), 60)
    assert capfd.readouterr() == ("", "")


def test_a_taken_port_is_named_with_its_setting(scene: Scene) -> None:
    with scene.served() as address:
        port = int(address.rpartition(":")[2])
        assert address == f"http://127.0.0.1:{port}"
        other = Scene(scene.settings.changed(metrics_port=port))
        with pytest.raises(PlatformError, match=f"port {port}.*TIDEMARK_METRICS_PORT"), other.served():
            pass


def test_an_address_of_another_machine_is_not_a_taken_port(scene: Scene) -> None:
    other = Scene(scene.settings.changed(metrics_address="203.0.113.9", metrics_port=9464))
    with pytest.raises(PlatformError, match=r"cannot listen on 203\.0\.113\.9"), other.served():
        pass


def test_every_metric_in_the_alert_rules_and_in_the_documentation_exists(scene: Scene) -> None:
    with scene.served() as address:
        scene.batch(rows=1, newest_kafka_timestamp=datetime.now(UTC), newest_event_time=datetime.now(UTC))
        scene.store.ensure(ACCOUNTS)
        scene.query.lastProgress = SimpleNamespace(stateOperators=[SimpleNamespace(numRowsTotal=3)])
        scene.progress.running(address)
        known = {key.partition(",")[0] for key in values(get(f"{address}/metrics")[1])}
    operations = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `(tidemark_\w+)` \|", operations, re.MULTILINE))
    served = {name for name in known if name.startswith("tidemark_") and not name.endswith("_created")}
    assert table == {re.sub(r"_(bucket|sum|count)$", "", name) for name in served}

    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert (
            rule["labels"]["severity"] in {"critical", "warning", "info"} and rule["annotations"]["summary"]
        )
        named = set(re.findall(r"\b(?:tidemark_\w+|up\b)", rule["expr"]))
        assert named and named <= known | {"up"}, rule["alert"]


def test_its_record_is_written_by_several_threads_at_once(scene: Scene) -> None:
    def write() -> None:
        for _ in range(200):
            scene.progress.running("127.0.0.1:1")

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(write) for _ in range(4)]:
            done.result()
    assert read_record(scene.settings.run_directory / "pipeline.json")["state"] == "running"
