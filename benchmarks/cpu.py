"""CPU time and memory of a process and its descendants, while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import psutil

_EVERY_SECONDS = 0.2


@dataclass
class Used:
    """`seconds` of CPU time so far; `most_resident`: the most MiB of any single process, `most_together` of all
    at a time, with memory that they share counted for each; `looks`: samples of the CPU time, each with its time (epoch
    seconds)."""

    seconds: float = 0.0
    most_resident: float = 0.0
    most_together: float = 0.0
    looks: list[tuple[float, float]] = field(default_factory=list)
    _by_process: dict[tuple[int, float], float] = field(default_factory=dict)

    def look(self, pid: int) -> None:
        """Takes a sample. A process that has ended keeps its last values."""
        try:
            top, together = psutil.Process(pid), 0.0
            for process in [top, *top.children(recursive=True)]:
                key = (process.pid, process.create_time())
                self._by_process[key] = sum(process.cpu_times()[:2])
                resident = process.memory_info().rss / 2**20
                self.most_resident = max(self.most_resident, resident)
                together += resident
            self.most_together = max(self.most_together, together)
        except psutil.Error:  # one has just ended; the next look is soon
            pass
        self.seconds = sum(self._by_process.values())
        self.looks.append((time.time(), self.seconds))

    def between(self, begun: float, ended: float) -> float:
        """Seconds of CPU time between two times."""
        times, seconds = zip(*self.looks, strict=True)
        return float(np.diff(np.interp([begun, ended], times, seconds))[0])


@contextmanager
def used_by(pid: int) -> Iterator[Used]:
    """CPU time and memory of the process, sampled five times a second."""
    used, done = Used(), threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY_SECONDS):
            used.look(pid)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield used
    finally:
        done.set()
        watcher.join()
