"""Speed and expected arrivals of a bus from two successive positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from examples.bus_positions.routes import Route

COMING_STOPS = 3
# Below this speed, in metres per second, a bus is standing, and its arrivals are unknown.
STANDING = 0.5


class Position(NamedTuple):
    """A reported position; time in epoch milliseconds, x and y in metres. Ordered by time."""

    time: int
    x: float
    y: float
    route: str


class Motion(NamedTuple):
    """The state of a bus: latest position, metres along its route, metres per second, and expected arrivals at
    stops in epoch milliseconds. Speed is None while there is only one position."""

    position: Position
    along: float
    speed: float | None
    arrivals: tuple[tuple[str, int], ...]


def latest_two(positions: Iterable[Position]) -> tuple[Position, ...]:
    """The last two positions by time, the earlier one first: the state of a bus. It does not depend on the
    order of arrival. Of several positions at one time, the greatest is used."""
    return tuple(sorted({p.time: p for p in sorted(positions)}.values())[-2:])


def motion(latest: tuple[Position, ...], route: Route) -> Motion:
    """The motion from one or two positions of `latest_two`. Buses move forward only. On another route, a bus
    starts again."""
    last = latest[-1]
    along = route.along(last.x, last.y)
    if len(latest) < 2 or latest[0].route != last.route:
        return Motion(last, along, None, ())
    before = latest[0]
    metres = (along - route.along(before.x, before.y)) % route.length
    # A small step back is noise of a standing bus's receiver, not a full round.
    metres = 0.0 if metres > route.length * 0.9 else metres
    speed = metres / ((last.time - before.time) / 1000)
    if speed < STANDING:
        return Motion(last, along, speed, ())
    coming = route.coming(along, COMING_STOPS)
    arrivals = tuple((stop.name, last.time + round(ahead / speed * 1000)) for stop, ahead in coming)
    return Motion(last, along, speed, arrivals)
