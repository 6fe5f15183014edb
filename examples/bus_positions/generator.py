"""Buses that report their positions; some wait at stops, and some fall silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from examples.bus_positions.routes import ROUTES, Route
from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled

TOPIC = "positions"
START = 1_767_225_600  # epoch seconds of the first position
# Seconds of event time per second of a run.
SPEED = 30
# Maximum delay of a late position in event seconds; several later positions arrive before it.
LATE_BY = 150
# Interval of a bus's reports in event seconds; together with the rate it determines the number of buses.
REPORT_EVERY = 15

_CRUISE = (6.0, 12.0)
_STOP_SECONDS = 25
_NOISE = 4.0
_BAD_SHARE = 0.01


@dataclass
class _Bus:
    name: str
    route: Route
    along: float
    cruise: float
    waits: float = 0.0
    offset: float = 0.0

    def move(self, offset: float) -> None:
        """Moves the bus to `offset` event seconds: at cruising speed, with a wait at each stop."""
        seconds, self.offset = offset - self.offset, offset
        while seconds > 0:
            if self.waits > 0:
                waited = min(self.waits, seconds)
                self.waits -= waited
                seconds -= waited
                continue
            _, ahead = self.route.coming(self.along, 1)[0]
            metres = min(ahead, self.cruise * seconds)
            self.along = (self.along + metres) % self.route.length
            seconds -= metres / self.cruise
            if metres == ahead:
                self.waits = _STOP_SECONDS


def bus_count(load: Load) -> int:
    """Number of buses for the load's rate."""
    return max(2, round(load.rate * REPORT_EVERY / SPEED))


def falls_silent(load: Load) -> dict[str, float]:
    """The buses that stop reporting (one in twelve, at least one), and the event second at which they stop."""
    random = load.random("silence")
    count = bus_count(load)
    chosen = random.sample(range(count), max(1, count // 12))
    return {f"bus{n}": random.uniform(4, 8) * SPEED for n in sorted(chosen)}


def events(load: Load) -> Iterator[Event]:
    """The positions in order of sending, about one in a hundred of them bad."""
    return delayed(_positions(load), load, LATE_BY / SPEED)


def _positions(load: Load) -> Iterator[Event]:
    random, faults = load.random("positions"), load.random("faults")
    silent = falls_silent(load)
    buses = [_bus(random, number) for number in range(bus_count(load))]
    for number, at in enumerate(load.times()):
        bus = buses[number % len(buses)]
        offset = at * SPEED
        bus.move(offset)
        x, y = bus.route.point(bus.along)
        fields = {
            "bus": bus.name,
            "route": bus.route.name,
            "event_time": iso(START + offset),
            "x": round(x + random.gauss(0, _NOISE), 1),
            "y": round(y + random.gauss(0, _NOISE), 1),
        }
        if offset > silent.get(bus.name, offset):
            continue
        if faults.random() < _BAD_SHARE:
            value, reason = spoiled(fields, "event_time", faults)
            yield Event(at, TOPIC, value, bus.name.encode(), reason=reason)
        else:
            yield Event(at, TOPIC, as_json(fields), bus.name.encode())


def _bus(random: Random, number: int) -> _Bus:
    route = list(ROUTES.values())[number % len(ROUTES)]
    return _Bus(f"bus{number}", route, random.uniform(0, route.length), random.uniform(*_CRUISE))
