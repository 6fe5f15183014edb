"""Questions to the HTTP API beside a pipeline under a steady load: seconds of each answer, and the freshness with and
without them.

The questions are open-loop, too. `cached` ones ask the same few reports of the last 24 hours again and again; each new
version of the tables makes them anew. `uncached` ones have a range that nobody has asked for. Many keys ask, since each
may ask 60 times in a minute.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from itertools import count
from urllib.parse import urlencode, urlsplit

from benchmarks import freshness
from benchmarks.figures import Figure
from tidemark.access.door import Door
from tidemark.api.answers import Limits
from tidemark.local import dashboard
from tidemark.settings import Settings

CACHED = ("overview", "pages", "countries", "sources", "errors")
UNCACHED = ("overview", "errors", "countries", "bots", "pages")
THREADS = 16


def measure(*, rate: int, cached: int, uncached: int, seconds: int, warm_up: int) -> list[Figure]:
    """Freshness in seconds at `rate` lines per second, without and with so many questions a second, and their times."""
    questions = Questions(cached, uncached)
    figures = []
    for label, beside in (("without questions", None), ("with questions", questions.asked)):
        ages = freshness.measure(rate=rate, seconds=seconds, warm_up=warm_up, beside=beside)
        figures += [Figure(f"{figure.name}, {label}", figure.values) for figure in ages]
    return [*figures, *questions.figures()]


@dataclass
class Questions:
    """So many questions a second, and the seconds of their answers since they were due, by kind."""

    cached: int
    uncached: int
    took: dict[str, list[float]] = field(default_factory=lambda: {"cached": [], "uncached": []})
    statuses: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def asked(self, settings: Settings) -> Iterator[None]:
        """Asks the dashboard of a home while the context is open."""
        number = 2 + 60 * (self.cached + self.uncached) // Limits().per_minute
        door = Door(settings.home)
        keys = [door.keys.add(f"key-{i}", "viewer", (), None) for i in range(number)]
        stop = threading.Event()
        with freshness.started(settings, "dashboard"), ThreadPoolExecutor(THREADS) as pool:
            while not dashboard.is_healthy(settings):
                time.sleep(0.2)
            address = urlsplit(dashboard.url(settings)).netloc
            turns = count()

            def send(kind: str, rate: int) -> None:
                begun = time.monotonic()
                for i in count():
                    if stop.wait(max(0.0, begun + i / rate - time.monotonic())):
                        return
                    key = keys[next(turns) % len(keys)]
                    pool.submit(self._ask, address, key, kind, i, begun + i / rate)

            kinds = {"cached": self.cached, "uncached": self.uncached}
            senders = [threading.Thread(target=send, args=each) for each in kinds.items()]
            for sender in senders:
                sender.start()
            try:
                yield
            finally:
                stop.set()
                for sender in senders:
                    sender.join()

    def _ask(self, address: str, key: str, kind: str, number: int, due: float) -> None:
        connection = HTTPConnection(address, timeout=30)
        headers = {"Authorization": f"Bearer {key}"}
        try:
            connection.request("GET", _address(kind, number), headers=headers)
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
        finally:
            connection.close()
        self.took[kind].append(time.monotonic() - due)

    def figures(self) -> list[Figure]:
        """Their times, and how many were answered by another status than 200."""
        others = {status: n for status, n in self.statuses.items() if status != 200}
        print(f"  {self.statuses[200]:,} answers; other statuses: {others or 'none'}", flush=True)
        return [Figure(f"{kind} answers, s", took) for kind, took in self.took.items()]


def _address(kind: str, number: int) -> str:
    if kind == "cached":
        return f"/api/v1/reports/{CACHED[number % len(CACHED)]}?range=24h"
    since = datetime.now(UTC) - timedelta(hours=20, seconds=number)
    values = {"from": since.isoformat(), "to": (since + timedelta(days=2)).isoformat()}
    return f"/api/v1/reports/{UNCACHED[number % len(UNCACHED)]}?{urlencode(values)}"
