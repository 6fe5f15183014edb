"""Definition of a trend: a topic that is far more frequent in a window than in its past.

The counts are bounded sketches, one per minute. All functions are pure functions of these sketches, so a late
message that changes a minute changes every window that contains or follows the minute, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from datasketches import frequent_items_error_type, frequent_strings_sketch


@dataclass(frozen=True)
class Definition:
    """Times are in minutes, the unit in which messages are counted.

    A window of `window` minutes ends at every `slide`. A topic is looked at when it has at least `floor`
    messages in the window. Its baseline is the exponentially decayed mean over the `history` minutes before
    the window, of which each `half_life` counts half; a window with fewer than `least_history` known
    minutes before it is not scored. The `top` highest scores of at least `least_score` are kept.
    """

    window: int = 10
    slide: int = 1
    history: int = 60
    half_life: int = 20
    least_history: int = 20
    floor: int = 20
    least_score: float = 4.0
    top: int = 10

    def weight(self, age: int) -> float:
        """Weight of a minute that is `age` minutes before the window's first."""
        return float(0.5 ** (age / self.half_life))


class Trend(NamedTuple):
    """One topic of one window, which ends before minute `end`."""

    end: int
    rank: int
    topic: str
    messages: int
    expected: float
    score: float


Minutes = Mapping[int, frequent_strings_sketch]


def window_ends(minutes: Iterable[int], definition: Definition) -> list[int]:
    """The ends of the windows whose trends depend on any of these minutes."""
    d = definition
    reach = d.window + d.history
    return sorted(
        {
            end
            for minute in set(minutes)
            for end in range(minute + 1, minute + reach + 1)
            if end % d.slide == 0
        }
    )


def trends(minutes: Minutes, end: int, definition: Definition) -> list[Trend]:
    """The trends of the window that ends before minute `end`, best first; none while history is short."""
    d = definition
    start = end - d.window
    past = [minute for minute in range(start - d.history, start) if minute in minutes]
    if len(past) < d.least_history:
        return []
    present = [minutes[minute] for minute in range(start, end) if minute in minutes]
    if not present:
        return []
    weights = [d.weight(start - minute) for minute in past]
    scored = []
    for topic in _frequent(present, d.floor):
        messages = sum(sketch.get_estimate(topic) for sketch in present)
        if messages < d.floor:
            continue
        known = sum(w * minutes[m].get_estimate(topic) for w, m in zip(weights, past, strict=True))
        expected = d.window * known / sum(weights)
        scored.append((score(messages, expected), topic, messages, expected))
    best = sorted((j for j in scored if j[0] >= d.least_score), key=lambda j: (-j[0], j[1]))[: d.top]
    return [
        Trend(end, rank, topic, messages, expected, value)
        for rank, (value, topic, messages, expected) in enumerate(best, 1)
    ]


def score(messages: int, expected: float) -> float:
    """How many standard deviations the count lies above the expected one, to six digits.

    Counts of independent messages are about Poisson, whose variance is its mean; one more message in the
    denominator keeps a topic that was never seen from scoring infinity.
    """
    return round((messages - expected) / sqrt(expected + 1), 6)


def unite(sketches: Sequence[bytes]) -> bytes:
    """One sketch of the counts in all, as large as the largest."""
    first, *rest = sorted(map(frequent_strings_sketch.deserialize, sketches), key=_entries, reverse=True)
    for sketch in rest:
        first.merge(sketch)
    return bytes(first.serialize())


def error(sketch: frequent_strings_sketch) -> int:
    """The maximum overcount of a topic in the sketch; 0 while every topic has its own entry."""
    return int(sketch.get_upper_bound("\0never seen"))


def _entries(sketch: frequent_strings_sketch) -> int:
    return int(sketch.num_active_items)


def _frequent(sketches: Sequence[frequent_strings_sketch], floor: int) -> list[str]:
    """Every topic that may have been counted `floor` times in all the sketches."""
    # In a window of n minutes a topic of `floor` messages has floor/n in one of them at least.
    each = max(0, -(-floor // len(sketches)) - 1)
    kind = frequent_items_error_type.NO_FALSE_NEGATIVES
    return sorted({item[0] for sketch in sketches for item in sketch.get_frequent_items(kind, each)})
