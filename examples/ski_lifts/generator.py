"""A day on the slopes at 120 times its speed: skiers pass the gates of eight lifts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled
from examples.ski_lifts.job import RIDES

OPENING = datetime(2026, 2, 14, 8, tzinfo=UTC).timestamp()
SPEED = 120
# A gate that lost its connection sends its rides up to 20 minutes later, some too late for any window.
LATE_SECONDS = 10.0
BAD = 0.01
LIFTS = {
    "gondola": 10, "sunnyside": 6, "north-face": 4, "glacier": 3, "valley": 5, "ridge": 2, "nursery": 4, "cornice": 1,
}  # fmt: skip


def events(load: Load) -> Iterator[Event]:
    """The rides in the order of sending."""
    return delayed(_on_time(load), load, LATE_SECONDS)


def _on_time(load: Load) -> Iterator[Event]:
    chance = load.random("rides")
    names, weights = list(LIFTS), list(LIFTS.values())
    for at in load.times():
        (lift,) = chance.choices(names, weights)
        ride = {
            "lift": lift,
            "pass": f"P{chance.randrange(5_000):04}",
            "event_time": iso(OPENING + at * SPEED),
        }
        value, reason = as_json(ride), ""
        if chance.random() < BAD:
            value, reason = spoiled(ride, "event_time", chance)
        partition = names.index(lift) % RIDES.partitions
        yield Event(at, RIDES.topic, value, lift.encode(), partition, reason=reason)
