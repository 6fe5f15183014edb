"""The job beside the pipeline: over silver.requests instead of the topic, with the same answers."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from examples.intrusion.check import Logged, Sequel, logged, logins, traffic
from examples.intrusion.generator import events
from examples.intrusion.job import LATENESS, LOGIN_ALERTS, TRAFFIC_ALERTS, job
from examples.intrusion.requests import from_table
from examples.intrusion.rules import Alert, Limits
from examples.intrusion.watch import main
from examples.kit import run
from examples.kit.load import Load
from examples.kit.results import Results
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings


def requests(lines: list[tuple[int, int, Logged]]) -> pa.Table:
    """Rows as the pipeline writes them, as far as the job reads them."""
    return pa.table(
        {
            "partition": pa.array([partition for partition, _, _ in lines], pa.int32()),
            "offset": pa.array([offset for _, offset, _ in lines], pa.int64()),
            "event_time": pa.array(
                [datetime.fromtimestamp(line.second, UTC) for _, _, line in lines],
                pa.timestamp("us", tz="UTC"),
            ),
            **{
                name: [getattr(line, name) for _, _, line in lines]
                for name in ("client_ip", "method", "path")
            },
            "status": pa.array([line.status for _, _, line in lines], pa.int32()),
        }
    )


def test_the_table_gives_the_same_alerts(spark: SparkSession, broker: Settings, tmp_path: Path) -> None:
    home = broker.changed(home=tmp_path)
    prepare_home(home)
    items = [event for event in events(Load(seed=4, rate=150, seconds=12)) if not event.reason]
    lines = logged(items)
    rows = [(event.partition, n, line) for n, (event, line) in enumerate(zip(items, lines, strict=True))]
    table, middle = str(home.tables / "silver" / "requests"), len(rows) // 2
    write_deltalake(table, requests(rows[:middle]))

    with run.running(job(from_table, f"alerts-{uuid.uuid4().hex[:8]}"), spark, home) as runtime:
        write_deltalake(table, requests(rows[middle:]), mode="append")
        runtime.catch_up()

    results = Results(home)
    alerts = [
        Alert(r["rule"], r["client_ip"], int(r["started_at"].timestamp()), r["value"], r["usual"])
        for r in results.table(TRAFFIC_ALERTS).to_pylist()
    ]
    assert sorted(alerts) == traffic(lines, Limits()) != []
    watermark = max(line.second for line in lines) - LATENESS.total_seconds()
    counts = Counter(
        Sequel(r["rule"], r["client_ip"], int(r["started_at"].timestamp()), int(r["matched_at"].timestamp()))
        for r in results.table(LOGIN_ALERTS).to_pylist()
    )
    wanted = Counter(sequel for sequel in logins(lines) if sequel.end < watermark)
    assert wanted
    assert {sequel: n for sequel, n in counts.items() if sequel.end < watermark} == wanted


def test_without_a_pipeline_there_is_nothing_to_watch(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--home", str(tmp_path)])
    assert result.exit_code == 1
    assert "no table silver.requests" in result.output
    assert "tidemark run" in result.output
