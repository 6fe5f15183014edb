"""How many lines a micro-batch takes at most, by what batches have taken so far."""

from __future__ import annotations

from collections import deque

from tidemark.machine import shuffle_partitions
from tidemark.settings import Settings

# More at once make no line cheaper.
MOST_LINES = 400_000
LINES_PER_PARTITION = 50_000
# With fewer a batch's fixed cost is most of it.
LEAST_LINES = 5_000
_BATCHES = 3


def most_lines(settings: Settings) -> int:
    """How many lines a batch has at most; on a cluster, so many a partition."""
    return MOST_LINES if settings.is_local else shuffle_partitions(settings) * LINES_PER_PARTITION


class BatchSize:
    """The bound on a batch: as many lines as take `freshness_goal_seconds`, up to a most.

    It matters only while lines pile up: a batch that is not full took what was there. Of the last few full
    batches the quickest counts, since the first ones after a start compile code.
    """

    def __init__(self, settings: Settings) -> None:
        fixed = settings.batch_lines
        self._bounds = (fixed, fixed) if fixed else (LEAST_LINES, most_lines(settings))
        self._goal = settings.freshness_goal_seconds
        self._rates: deque[float] = deque(maxlen=_BATCHES)
        self.lines = self._bounds[1]

    def observe(self, rows: int, seconds: float) -> None:
        """Takes what a batch had and took."""
        if rows >= 0.8 * self.lines:
            self._rates.append(rows / seconds)

    def better(self) -> int | None:
        """A bound that fits much better than `lines`; None if there is none, or too little is known."""
        if len(self._rates) < _BATCHES:
            return None
        least, most = self._bounds
        lines = min(most, max(least, round(max(self._rates) * self._goal)))
        return None if 0.5 < lines / self.lines < 2 or lines == self.lines else lines

    def change(self, lines: int) -> None:
        """Has batches take `lines` from now on."""
        self.lines = lines
        self._rates.clear()
