"""The running pipeline evaluates rules in a process of its own, and notifies a real endpoint, as does `run --once`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.operate.alerts.targets import http_endpoint
from tests.pipeline.harness import fresh, produce, run_process
from tests.processes import in_background
from tidemark.local.process import process_mark, wait_until
from tidemark.local.records import read_record
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings, with_tables_of_now

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
RULES = """
[alerts.errors]
metric = "share_5xx"
window = "1d"
above = 0.5
to = ["{}"]
[alerts.deaf]
metric = "requests"
window = "1d"
above = 0
to = ["json://127.0.0.1:1/5ecre7"]
"""


def line(at: datetime, status: int) -> tuple[str, bytes]:
    text = f'192.0.2.7 - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1" {status} 5 "-" "{AGENT}"'
    return "shop", text.encode()


def alert_of(settings: Settings, rule: str) -> dict[str, Any]:
    """The only alert of a rule."""
    alerts = DeltaTable(str(settings.tables / "quality" / "alerts")).to_pyarrow_table().to_pylist()
    [alert] = [each for each in alerts if each["rule"] == rule]
    return alert


@pytest.mark.slow
def test_a_running_pipeline_tells_what_fires_and_what_late_lines_withdraw(
    broker: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    settings.home.mkdir()
    day = timedelta(days=1)
    start = (datetime.now(UTC) - timedelta(minutes=5)).replace(
        hour=0, minute=0, second=0, microsecond=0
    ) - day
    with http_endpoint() as endpoint:
        (settings.home / "tidemark.toml").write_text(RULES.format(endpoint.url))
        produce(settings, [line(start + day / 2, 500), line(start + day, 200)])
        process = run_process(settings, once=False)
        try:
            assert wait_until(lambda: len(endpoint.taken) == 1, 120), process.poll()
            [child] = in_background("alerts", process.pid)
            assert child.nice() == 19
            produce(settings, [line(start, 200)] * 2)
            assert wait_until(lambda: len(endpoint.taken) == 2, 60)
            record = settings.run_directory / "pipeline.json"
            assert wait_until(lambda: "alerts" in read_record(record)["troubles"], 60)
            # A message is recorded after it was taken. Ended between the two, the pipeline would not know of it.
            assert wait_until(lambda: alert_of(settings, "errors")["delivered"] == "withdrawn", 60)
            troubles = read_record(record)["troubles"]["alerts"]
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        assert troubles == "target 1 (json) of alert deaf did not take the message"
        assert "5ecre7" not in output and troubles in output
        assert process_mark(child.pid) is None
        titles = [message["title"] for message in endpoint.taken]
        assert titles == ["Alert errors: shop", "Withdrawn: alert errors: shop"]

        produce(settings, [line(start, 503)] * 3)
        run_pipeline(with_tables_of_now(settings), once=True)
        assert [message["title"] for message in endpoint.taken][2:] == ["Alert errors: shop"]
    table = settings.tables / "quality" / "alerts"
    alert = alert_of(settings, "errors")
    assert (alert["window_start"], alert["state"], alert["delivered"]) == (start, "firing", "firing")
    assert (alert["value"], alert["late"]) == (4 / 6, True)
    assert not [path for path in table.rglob("*") if path.is_file() and b"5ecre7" in path.read_bytes()]
