"""How often somebody may fail, or ask."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from threading import Lock

MOST = 5
SECONDS = 60.0
_MOST_KEYS = 10_000


class Attempts:
    """Counts attempts of names, addresses or keys: after `most` within `seconds`, each has to wait."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most: int = MOST, seconds: float = SECONDS
    ) -> None:
        self._clock = clock
        self._most = most
        self._seconds = seconds
        self._times: dict[Hashable, deque[float]] = {}
        self._lock = Lock()

    def begin(self, *keys: Hashable) -> float:
        """Begins an attempt, which counts unless it `succeeded`, so that many at once do not pass. Returns 0, or the
        seconds to wait."""
        with self._lock:
            now = self._clock()
            waits = [self._wait(key, now) for key in keys]
            if max(waits) > 0:
                return max(waits)
            for key in keys:
                # The newest stand last, so that the oldest are forgotten first.
                times = self._times[key] = self._times.pop(key, deque())
                times.append(now)
            while len(self._times) > _MOST_KEYS:
                self._times.pop(next(iter(self._times)))
            return 0.0

    def succeeded(self, *keys: Hashable) -> None:
        """The last attempt does not count."""
        with self._lock:
            for key in keys:
                times = self._times.get(key)
                if times:
                    times.pop()

    def _wait(self, key: Hashable, now: float) -> float:
        times = self._times.get(key)
        while times and times[0] <= now - self._seconds:
            times.popleft()
        return times[0] + self._seconds - now if times and len(times) >= self._most else 0.0
