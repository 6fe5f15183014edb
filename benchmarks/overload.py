"""Behaviour of a pipeline under a load far above its capacity, and the time until it has caught up.

The load is open-loop: generated lines are sent repeatedly, as fast as possible up to the rate. The accounts give
the number of lines processed during and after the load.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import pyarrow.compute as pc
from confluent_kafka import Producer
from deltalake import DeltaTable

from benchmarks.cpu import used_by
from benchmarks.figures import Figure
from benchmarks.freshness import running_pipeline
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

_LINES = 100_000
_PATIENCE_SECONDS = 1_800.0
_WARM_UP_SECONDS = 10


@dataclass
class Flood:
    """Lines sent at up to `rate` per second; `sent` so far."""

    settings: Settings
    rate: int
    sent: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        config = {"linger.ms": 50, "compression.type": "lz4", "queue.buffering.max.messages": 500_000}
        producer = Producer({**kafka.client_config(self.settings.kafka), **config})
        traffic = Traffic(start=int(time.time()) - 600, rate=_LINES / 600, seconds=700, seed=1)
        generated = list(
            islice((line for block in blocks(traffic, truth=False) for line in block.lines), _LINES)
        )
        lines, begun = cycle(generated), time.time()
        while not self._stop.is_set():
            due = int((time.time() - begun) * self.rate) - self.sent
            for line in islice(lines, min(due, 10_000)):
                try:
                    producer.produce(self.settings.kafka.topic, line)
                except BufferError:  # the broker accepts no more: this is the maximum rate
                    producer.poll(0.05)
                    break
                self.sent += 1
            producer.poll(0)
        producer.flush()

    def stop(self) -> None:
        self._stop.set()


def measure(*, rate: int, seconds: int) -> list[Figure]:
    """Lines per second sent and processed, largest backlog, seconds to catch up, and memory in MiB."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        settings = Settings.of(home=Path(directory) / "home", broker_port=0)
        with (
            broker.running(settings) as there,
            running_pipeline(there) as process,
            used_by(process.pid) as used,
        ):
            time.sleep(_WARM_UP_SECONDS)
            flood = Flood(there, rate)
            sender = threading.Thread(target=flood.run)
            sender.start()
            begun, most_behind = time.monotonic(), 0
            while time.monotonic() < begun + seconds:
                most_behind = max(most_behind, flood.sent - _received(there))
                time.sleep(0.5)
            flood.stop()
            sender.join()
            ended, done = time.monotonic(), _received(there)
            while (received := _received(there)) < flood.sent:
                if time.monotonic() > ended + _PATIENCE_SECONDS or process.poll() is not None:
                    raise RuntimeError(f"{flood.sent - received} lines were not worked off")
                time.sleep(0.5)
            caught_up = time.monotonic() - ended
        assert received == flood.sent, "lines were counted twice"
    return [
        Figure("lines sent a second", [flood.sent / (ended - begun)]),
        Figure("worked off meanwhile, lines/s", [done / (ended - begun)]),
        Figure("most lines behind", [float(most_behind)]),
        Figure("worked off after it, lines/s", [(flood.sent - done) / caught_up]),
        Figure("seconds to catch up", [caught_up]),
        Figure("most resident memory of a process, MiB", [used.most_resident]),
    ]


def _received(settings: Settings) -> int:
    path = settings.tables / "quality/accounts"
    if not (path / "_delta_log").exists():
        return 0
    received = DeltaTable(str(path)).to_pyarrow_table(columns=["received"])["received"]
    return int(pc.sum(received).as_py() or 0)
