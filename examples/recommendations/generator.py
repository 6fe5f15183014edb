"""People who view items: shared preferences, visits with pauses, and late views."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled

TOPIC = "views"
START = 1_767_225_600  # epoch seconds of the first view
# Seconds of event time per second of a run, so that twenty seconds have many visits of one person.
SPEED = 600
# Maximum delay of a late view in event seconds: longer than the gap that ends a session.
LATE_BY = 5400

_GENRES = ("crime", "space", "cooking", "gardens", "travel", "history", "poems", "maths")
_ITEMS_PER_GENRE = 15
_BAD_SHARE = 0.01
# How long somebody stays with an item and away from the site, in event seconds; on average a person is
# due again after about an hour, which with the rate says how many people there are.
_STAY, _AWAY = 240, (2400, 14400)
_BETWEEN_LOOKS = 1900


@dataclass
class _Visitor:
    name: str
    genre: str
    looks_left: int


def events(load: Load) -> Iterator[Event]:
    """The views in order of sending, about one in a hundred of them bad."""
    return delayed(_views(load), load, LATE_BY / SPEED)


def _views(load: Load) -> Iterator[Event]:
    random, faults = load.random("views"), load.random("faults")
    people = max(4, int(load.rate * _BETWEEN_LOOKS / SPEED))
    agenda = [(random.uniform(0, _BETWEEN_LOOKS), n, _visitor(random, n)) for n in range(people)]
    heapq.heapify(agenda)
    for number, at in enumerate(load.times()):
        # The person who is due next views now: the rate is exact, and the pauses are nearly as planned.
        due, order, visitor = heapq.heappop(agenda)
        offset = at * SPEED
        fields = {
            "id": f"view{number}",
            "visitor": visitor.name,
            "item": _item(random, visitor.genre),
            "event_time": iso(START + offset),
        }
        key = visitor.name.encode()
        if faults.random() < _BAD_SHARE:
            value, reason = spoiled(fields, "event_time", faults)
            yield Event(at, TOPIC, value, key, reason=reason)
        else:
            yield Event(at, TOPIC, as_json(fields), key)
        pause = _pause(random, visitor)
        heapq.heappush(agenda, (max(due, offset) + pause, order, visitor))


def _visitor(random: Random, number: int) -> _Visitor:
    return _Visitor(f"v{number}", random.choice(_GENRES), random.randint(1, 7))


def _pause(random: Random, visitor: _Visitor) -> float:
    """Time until the visitor's next view: seconds within a visit, hours between visits."""
    visitor.looks_left -= 1
    if visitor.looks_left:
        return random.expovariate(1 / _STAY)
    visitor.looks_left = random.randint(1, 7)
    return random.uniform(*_AWAY)


def _item(random: Random, favourite: str) -> str:
    genre = favourite if random.random() < 0.85 else random.choice(_GENRES)
    # The smaller of two random numbers makes low numbers popular.
    return f"{genre}-{min(random.randrange(_ITEMS_PER_GENRE), random.randrange(_ITEMS_PER_GENRE))}"
