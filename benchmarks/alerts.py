"""Latency from a payment to its alert at a consumer: `examples/fraud_alerts`.

An open loop: a separate process sends payments at a fixed rate. The latency is the time from a
payment's timestamp in Kafka, set when it is produced, to the moment when a consumer in this process has the
alert. Provisional alerts are read uncommitted, confirmed ones committed. Alerts on places are confirmed after
the allowed lateness and have their own figure.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.figures import Figure
from examples.fraud_alerts.evaluation import CONFIRMED, PROVISIONAL
from examples.fraud_alerts.generator import START
from examples.fraud_alerts.job import JOB
from examples.fraud_alerts.latency import kind, percentiles
from examples.fraud_alerts.topics import ALERTS
from examples.kit.conductor import Conductor
from examples.kit.load import Load
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.settings import Settings, load

Arrived = tuple[float, dict[str, Any]]


def measure(*, seconds: float, warm_up: float, rate: float = 1_000.0) -> list[Figure]:
    """p50, p99 and maximum, in ms, of each kind of alert on payments sent after `warm_up` seconds."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-", ignore_cleanup_errors=True) as directory:
        (Path(directory) / "tidemark.toml").write_text("broker_port = 0\n", encoding="utf-8")
        settings = load({"home": Path(directory)})
        arrived = watched(settings, Load(rate=rate, seconds=warm_up + seconds))
    live = [
        (read, alert)
        for read, alert in firsts(arrived)
        if alert["time"] >= START * 1000 and alert["produced"]
    ]
    begin = min(alert["produced"] for _, alert in live) + warm_up * 1000
    measured: dict[str, list[float]] = {}
    for read, alert in live:
        if alert["produced"] >= begin:
            measured.setdefault(kind(alert), []).append(read - alert["produced"])
    figures = []
    for name, millis in sorted(measured.items()):
        shares = zip(("p50", "p99", "max"), percentiles(millis), strict=True)
        figures += [Figure(f"alert {name}, {share}, ms", [value]) for share, value in shares]
        figures.append(Figure(f"alert {name}, number", [float(len(millis))]))
    return figures


def firsts(arrived: list[Arrived]) -> list[Arrived]:
    """The first copy of each alert: while one provisional query replaces another, both alert on a payment."""
    first: dict[tuple[str, ...], Arrived] = {}
    for read, alert in sorted(arrived, key=lambda one: one[0]):
        first.setdefault(tuple(alert[name] for name in ("transaction", "rule", "status")), (read, alert))
    return list(first.values())


def watched(settings: Settings, load: Load) -> list[Arrived]:
    """Runs the example. Returns the alerts with the time (epoch ms) at which each was read."""
    arrived: list[Arrived] = []
    stop = threading.Event()
    readers = [
        threading.Thread(target=read, args=(settings, status, isolation, arrived, stop), daemon=True)
        for status, isolation in ((PROVISIONAL, "read_uncommitted"), (CONFIRMED, "read_committed"))
    ]
    with Conductor(JOB, "examples.fraud_alerts", settings, load) as conductor:
        for reader in readers:
            reader.start()
        conductor.run(lambda: None, kill=False)
        stop.set()
        for reader in readers:
            reader.join()
    return arrived


def read(
    settings: Settings, status: str, isolation: str, arrived: list[Arrived], stop: threading.Event
) -> None:
    """Collects the alerts of one status until `stop` is set."""
    while broker.status(settings) is None or not kafka.end_offsets(broker.located(settings).kafka, ALERTS):
        if stop.wait(0.5):
            return
    at = broker.located(settings).kafka
    consumer = Consumer(
        {
            **kafka.client_config(at),
            "group.id": f"bench-{status}",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(ALERTS, place, 0) for place in kafka.end_offsets(at, ALERTS)])
    try:
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                now, alert = time.time() * 1000, json.loads(message.value() or b"{}")
                if alert["status"] == status:
                    arrived.append((now, alert))
    finally:
        consumer.close()
