"""Messages with hashtags: steady topics, a long tail, and bursts that must be found."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled

TOPIC = "messages"
START = 1_767_225_600  # epoch seconds of the first message
# Event seconds that pass in one second of a run, so that twenty seconds show two hours of messages.
SPEED = 360
# Maximum delay of a late message in event seconds.
LATE_BY = 1500

_EVERY = 900
_STEADY = tuple(f"topic{n}" for n in range(200))
_STEADY_WEIGHTS = list(accumulate(1 / (n + 1) for n in range(len(_STEADY))))
_TAIL = 5_000_000
_BAD_SHARE = 0.01


@dataclass(frozen=True)
class Burst:
    """A topic that rises within minutes and fades; times in event seconds from the start, `peak` is its
    share of all mentions at `at`."""

    topic: str
    at: float
    width: float
    peak: float

    def share(self, offset: float) -> float:
        """A triangle: up over `width` seconds, down again over three times as many."""
        before = self.at - offset
        return self.peak * max(0.0, 1 - (before / self.width if before > 0 else -before / (3 * self.width)))


def burst(load: Load, number: int) -> Burst:
    """One burst for each quarter of an hour, from the third on."""
    random = load.random(f"burst {number}")
    at = (number + 2) * _EVERY + random.uniform(0, 300)
    return Burst(f"news{number}", at, random.uniform(120, 400), random.uniform(0.03, 0.12))


def events(load: Load) -> Iterator[Event]:
    """The messages in order of sending, about one in a hundred of them bad."""
    return delayed(_messages(load), load, LATE_BY / SPEED)


def _messages(load: Load) -> Iterator[Event]:
    random, faults = load.random("messages"), load.random("faults")
    known: dict[int, Burst] = {}
    for number, at in enumerate(load.times()):
        offset = at * SPEED
        slot = int(offset // _EVERY)
        for index in range(max(0, slot - 4), slot + 1):
            known.setdefault(index, burst(load, index))
        known.pop(slot - 5, None)
        author = f"user{random.randrange(50_000)}"
        topics = dict.fromkeys(_topic(random, offset, known) for _ in range(random.choice((1, 1, 2, 3))))
        fields = {
            "id": f"m{number}",
            "author": author,
            "event_time": iso(START + offset),
            "text": f"{random.choice(('Talking about', 'More on', 'Who follows'))} {_tags(random, topics)}!",
        }
        if faults.random() < _BAD_SHARE:
            value, reason = spoiled(fields, "event_time", faults)
            yield Event(at, TOPIC, value, author.encode(), reason=reason)
        else:
            yield Event(at, TOPIC, as_json(fields), author.encode())


def _topic(random: Random, offset: float, bursts: dict[int, Burst]) -> str:
    chosen = random.random()
    for rising in bursts.values():
        chosen -= rising.share(offset)
        if chosen < 0:
            return rising.topic
    if random.random() < 0.3:
        return f"rare{random.randrange(_TAIL)}"
    return _STEADY[bisect(_STEADY_WEIGHTS, random.uniform(0, _STEADY_WEIGHTS[-1] * 0.999999))]


def _tags(random: Random, topics: dict[str, None]) -> str:
    return " and ".join(f"#{topic.upper() if random.random() < 0.1 else topic}" for topic in topics)
