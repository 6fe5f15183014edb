"""Bounds the lines of a micro-batch by the duration of earlier batches."""

from __future__ import annotations

from collections import deque

from tidemark.machine import shuffle_partitions
from tidemark.settings.sections import BatchesSettings, SparkSettings

# Larger batches do not reduce the cost per line. A little more than a round number, because Spark rounds the shares of
# partitions down, and a few lines that are left of a round number would be one more batch.
MOST_LINES = 501_000
LINES_PER_PARTITION = 50_000
# Below this, the fixed cost of a batch dominates.
LEAST_LINES = 5_000
_BATCHES = 3


def most_lines(spark: SparkSettings) -> int:
    """Maximum lines of a batch; on a cluster, a number per shuffle partition."""
    return MOST_LINES if spark.is_local else shuffle_partitions(spark) * LINES_PER_PARTITION


class BatchSize:
    """The bound on a batch: as many lines as take `freshness_goal_seconds`, up to a maximum.

    It matters only while lines wait: a batch below the bound took all waiting lines. The fastest of the last few full
    batches counts, because the first ones after a start compile code.
    """

    def __init__(self, batches: BatchesSettings, spark: SparkSettings) -> None:
        fixed = batches.lines
        self._bounds = (fixed, fixed) if fixed else (LEAST_LINES, most_lines(spark))
        self._goal = batches.freshness_goal_seconds
        self._rates: deque[float] = deque(maxlen=_BATCHES)
        self.lines = self._bounds[1]

    def observe(self, rows: int, seconds: float) -> None:
        """Records rows and duration of a batch."""
        if rows >= 0.8 * self.lines:
            self._rates.append(rows / seconds)

    def better(self) -> int | None:
        """A bound that is much better than `lines`; None if there is none, or too few batches are known."""
        if len(self._rates) < _BATCHES:
            return None
        least, most = self._bounds
        lines = min(most, max(least, round(max(self._rates) * self._goal)))
        return None if 0.5 < lines / self.lines < 2 or lines == self.lines else lines

    def change(self, lines: int) -> None:
        """Sets the bound to `lines`."""
        self.lines = lines
        self._rates.clear()
