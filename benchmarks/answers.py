"""Questions to the HTTP API beside a pipeline under a steady load: seconds of each answer, and the freshness with and
without them.

The questions are open-loop, too. `cached` ones ask the same few reports of the last 24 hours again and again; each new
version of the tables makes them anew. `uncached` ones have a range that nobody has asked for. Many keys ask, since each
may ask 60 times in a minute.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from itertools import count
from urllib.parse import urlencode, urlsplit

import numpy as np

from benchmarks import freshness
from benchmarks.figures import Figure
from tidemark.access.door import Door
from tidemark.api.answers import Limits
from tidemark.local import dashboard
from tidemark.settings import Settings

CACHED = ("overview", "pages", "countries", "sources", "errors")
UNCACHED = ("overview", "errors", "countries", "bots", "pages")
# Clients of each kind, so that one kind never waits for the other's. A question waits for its answer for at most as
# many seconds; then all clients of ten a second would wait.
THREADS = 100
PATIENCE_SECONDS = 30
TELLING_SECONDS = 30


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
    """So many questions a second, and of each kind the seconds of the answers since they were due, and the statuses; 0
    stands for none."""

    cached: int
    uncached: int
    took: dict[str, list[float]] = field(default_factory=lambda: {"cached": [], "uncached": []})
    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    @contextmanager
    def asked(self, settings: Settings) -> Iterator[None]:
        """Asks the dashboard of a home while the context is open. Prints figures now and then and at the end, so that
        a run that is ended early has some."""
        number = 2 + 60 * (self.cached + self.uncached) // Limits().per_minute
        door = Door(settings.home)
        keys = [door.keys.add(f"key-{i}", "viewer", (), None) for i in range(number)]
        stop = threading.Event()
        with freshness.started(settings, "dashboard"):
            while not dashboard.is_healthy(settings):
                time.sleep(0.2)
            address = urlsplit(dashboard.url(settings)).netloc
            turns = count()

            def send(kind: str, rate: int) -> None:
                begun = time.monotonic()
                with ThreadPoolExecutor(THREADS) as pool:
                    for i in count():
                        if stop.wait(max(0.0, begun + i / rate - time.monotonic())):
                            break
                        key = keys[next(turns) % len(keys)]
                        pool.submit(self._ask, address, key, kind, i, begun + i / rate)

            def tell() -> None:
                while not stop.wait(TELLING_SECONDS):
                    self.tell()

            kinds = {"cached": self.cached, "uncached": self.uncached}
            threads = [threading.Thread(target=send, args=each) for each in kinds.items()]
            threads.append(threading.Thread(target=tell))
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
                self.tell()

    def _ask(self, address: str, key: str, kind: str, number: int, due: float) -> None:
        connection = HTTPConnection(address, timeout=PATIENCE_SECONDS)
        headers = {"Authorization": f"Bearer {key}"}
        status = 0
        try:
            connection.request("GET", _address(kind, number), headers=headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        self.statuses[kind][status] += 1
        self.took[kind].append(time.monotonic() - due)

    def tell(self) -> None:
        """Prints the number of answers of each kind by status, and their seconds."""
        for kind, took in self.took.items():
            if took:
                p50, p95 = np.percentile(took, [50, 95])
                statuses = ", ".join(f"{n:,} × {status}" for status, n in self.statuses[kind].most_common())
                print(
                    f"  {kind}: {statuses}; p50 {p50:.3f} s, p95 {p95:.3f} s, most {max(took):.2f} s",
                    flush=True,
                )

    def figures(self) -> list[Figure]:
        """Seconds of answers, and the share of questions that were answered, by kind."""
        figures = []
        for kind, took in self.took.items():
            answered = self.statuses[kind][200] / len(took)
            figures += [
                *(Figure(f"{kind} answers, p{p}, s", [float(np.percentile(took, p))]) for p in (50, 95)),
                Figure(f"{kind} answers, share answered", [answered]),
            ]
        return figures


def _address(kind: str, number: int) -> str:
    if kind == "cached":
        return f"/api/v1/reports/{CACHED[number % len(CACHED)]}?range=24h"
    since = datetime.now(UTC) - timedelta(hours=20, seconds=number)
    values = {"from": since.isoformat(), "to": (since + timedelta(days=2)).isoformat()}
    return f"/api/v1/reports/{UNCACHED[number % len(UNCACHED)]}?{urlencode(values)}"
