"""The broker is killed again and again under load: every line that it acknowledged is in silver, once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh, rows
from tests.recovery.killing import revive
from tidemark.kafka import client as kafka
from tidemark.local import broker as embedded
from tidemark.local.process import wait_until
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings

_LINES_PER_SECOND = 2_000


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_acknowledged_lines_are_in_silver_once(
    home: Settings, spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    chance = random.Random(kills)
    started = embedded.start(home)
    try:
        settings = fresh(home.changed(bootstrap_servers=started.bootstrap_servers), tmp_path / "reader")
        with Load(settings) as load:
            for _ in range(kills):
                before = len(load.acknowledged)
                assert wait_until(lambda seen=before: len(load.acknowledged) > seen, 60)  # type: ignore[misc]
                time.sleep(chance.uniform(0, 1))
                _kill(home)
                time.sleep(chance.uniform(0, 0.5))
                revive(home, started.bootstrap_servers)
        assert load.sent > kills * 500 and len(load.acknowledged) == load.sent
        run_pipeline(settings, once=True)
    finally:
        embedded.stop(home)
    result = [str(path) for (path,) in rows(settings, "silver.requests", ["path"])]
    assert len(result) == len(set(result)), "a line is there twice"
    assert set(result) == load.acknowledged


def _kill(home: Settings) -> None:
    running = embedded.status(home)
    assert running is not None, "the broker ended by itself"
    os.kill(running.pid, signal.SIGKILL)
    assert wait_until(lambda: embedded.status(home) is None, 60)


class Load:
    """Sends lines as a web server's shipper would, without a pause, until it is left; each has a path of its
    own. `acknowledged` are the paths that the broker has confirmed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.acknowledged: set[str] = set()
        self.failed: list[KafkaError] = []
        self.sent = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive() and self.failed == []

    def _send(self) -> None:
        producer = Producer(
            {**kafka.client_config(self._settings.kafka), "enable.idempotence": True, "linger.ms": 5,
             "message.timeout.ms": 120_000}
        )  # fmt: skip
        while not self._stop.is_set():
            for _ in range(_LINES_PER_SECOND // 20):
                path = f"/{self.sent}"
                line = f'192.0.2.7 - - [21/May/2026:10:00:00 +0000] "GET {path} HTTP/1.1" 200 512'
                producer.produce(
                    self._settings.kafka.topic, line.encode(), on_delivery=self._on_delivery(path)
                )
                self.sent += 1
            producer.poll(0)
            self._stop.wait(0.05)
        producer.flush(100)

    def _on_delivery(self, path: str):  # type: ignore[no-untyped-def]
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.add(path)
            else:
                self.failed.append(error)

        return on_delivery
