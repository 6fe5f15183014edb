"""Schedule of lines: their number per second, which are late, and pacing by the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import inf, log
from random import Random
from threading import Event
from typing import TYPE_CHECKING

from tidemark.traffic.countries import volume

if TYPE_CHECKING:
    from tidemark.traffic.stream import Block

_TICK = 0.005  # seconds; lines due within one are sent together


def counts(rate: float, start: int, rhythm: bool) -> Iterator[int]:
    """Lines in each second from `start` on; their sum is `rate` times the seconds, within one line.

    With `rhythm` the rate varies over the day, world-wide, and `rate` is its mean.
    """
    due, scheduled, second = 0.0, 0, start
    while True:
        if rhythm:
            due += rate * volume(second)
        else:
            due = rate * (second - start + 1)
        second += 1
        # The small addition corrects rounding, such as that of 0.1 * 30.
        count = int(due + 1e-6) - scheduled
        scheduled += count
        yield count


class Sample:
    """Picks items of a long sequence with a fixed probability; only the picked ones cost time."""

    def __init__(self, random: Random, fraction: float) -> None:
        self._random = random
        self._fraction = fraction
        self._next = self._gap()

    def of(self, count: int) -> list[int]:
        """Indexes of the picked ones among the next `count` items."""
        picked = []
        while self._next < count:
            picked.append(int(self._next))
            self._next += 1 + self._gap()
        self._next -= count
        return picked

    def _gap(self) -> float:
        if self._fraction <= 0:
            return inf
        if self._fraction >= 1:
            return 0
        return int(log(1.0 - self._random.random()) / log(1.0 - self._fraction))


def paced(
    blocks: Iterator[Block], begin: float, speed: float, stop: Event, delay: float = 0.0
) -> Iterator[tuple[Block, float]]:
    """Parts of the blocks when they are due, each with its delay behind the schedule in seconds.

    The schedule is fixed (an open loop): event time `begin` is `delay` seconds after the first part is
    requested, and `speed` seconds of event time pass per second. Parts that are overdue follow at
    once, and none is left out. Ends when `stop` is set.
    """
    started = time.monotonic() + delay
    for block in blocks:
        total, sent = len(block.lines), 0
        each = block.span / max(1, total)
        while sent < total:
            ahead = (time.monotonic() - started) * speed - (block.begin - begin)
            ready = min(total, int(ahead / each) + 1) if ahead >= 0 else 0
            if ready > sent:
                yield block.part(sent, ready), max(0.0, (ahead - each * sent) / speed)
                sent = ready
            if stop.is_set():
                return
            if sent < total:
                stop.wait(max(_TICK, (each * sent - ahead) / speed))
        if stop.is_set():
            return
