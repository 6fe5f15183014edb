"""Generated lines in a real Kafka: each once, unchanged, with its site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests import processes
from tests.traffic.generated import generate
from tidemark.kafka import client as kafka
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic

START = 1_779_000_000


def command(settings: Settings, topic: str, *options: str | Path) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "TIDEMARK_TOPIC": topic, "TIDEMARK_HOME": str(settings.home)}
    call = [
        sys.executable,
        "-m",
        "tidemark",
        "generate",
        "--bootstrap-servers",
        settings.kafka.bootstrap_servers,
    ]
    return [*call, *map(str, options)], environment


def read_all(settings: Settings, topic: str) -> list[tuple[bytes, bytes | None, float]]:
    """(value, header `site`, epoch second of sending) of all records of a topic."""
    ends = kafka.end_offsets(settings.kafka, topic)
    consumer = Consumer(
        {
            **kafka.client_config(settings.kafka),
            "group.id": "test",
            "fetch.message.max.bytes": kafka.MAX_RECORD_BYTES,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    records = []
    deadline = time.monotonic() + 30
    while len(records) < sum(ends.values()) and time.monotonic() < deadline:
        for message in consumer.consume(5000, 1.0):
            assert message.error() is None
            site = dict(message.headers() or []).get("site")
            records.append((message.value() or b"", site, message.timestamp()[1] / 1000))
    consumer.close()
    assert len(records) == sum(ends.values())
    return records


def lag(value: bytes, timestamp: float) -> float:
    """Seconds from the time in a line to the time at which it was sent."""
    at = value.split(b"[")[1].split(b"]")[0].decode()
    return timestamp - datetime.strptime(at, "%d/%b/%Y:%H:%M:%S %z").timestamp()


def test_all_lines_arrive_once_and_unchanged(broker: Settings) -> None:
    options = (
        "--seed",
        4,
        "--start-time",
        "2026-05-17T06:40:00",
        "--rate",
        1000,
        "--seconds",
        60,
        "--speed",
        60,
    )
    noise = ("--late", 0.1, "--malformed", 0.05, "--site", "shop", "--visitors", 500)
    call, environment = command(broker, "generated-all", *map(str, options + noise))
    began = time.monotonic()
    done = processes.run(call, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began >= 0.98, "a minute at sixty times the speed takes a second"
    traffic = Traffic(
        START, rate=1000, seconds=60, seed=4, site="shop", late=0.1, malformed=0.05, visitors=500
    )
    records = read_all(broker, "generated-all")
    assert Counter(value for value, _, _ in records) == Counter(line.value for line in generate(traffic))
    assert {site for _, site, _ in records} == {b"shop"}


def test_live_traffic_keeps_its_rate_and_its_truth_until_stopped(broker: Settings, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    call, environment = command(broker, "generated-live", "--rate", "200", "--truth", truth)
    with processes.Popen(call, env=environment, stderr=subprocess.PIPE) as running:
        deadline = time.monotonic() + 60
        while (
            sum(kafka.end_offsets(broker.kafka, "generated-live").values()) < 600
            and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        os.kill(running.pid, signal.SIGTERM)
        _, output = running.communicate(timeout=60)
    assert running.returncode == 0, output
    expected = json.loads(truth.read_bytes())
    records = read_all(broker, "generated-live")
    assert len(records) == expected["lines"] >= 600
    assert {site for _, site, _ in records} == {None}
    lags = [lag(value, sent) for value, _, sent in records]
    assert min(lags) >= 0, "no line is sent before its time"
    assert sorted(lags)[len(lags) // 2] < 2
