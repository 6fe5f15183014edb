"""What two successive positions of a bus say: its speed, and when it will be at the coming stops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from examples.bus_positions.routes import Route

COMING_STOPS = 3
# Slower than this, in metres a second, a bus stands: then there is no telling when it will come.
STANDING = 0.5


class Position(NamedTuple):
    """Where a bus says it was; time in epoch milliseconds, x and y in metres. Ordered by time."""

    time: int
    x: float
    y: float
    route: str


class Motion(NamedTuple):
    """A bus as known: its latest position, metres along its route, metres per second, and at which epoch
    millisecond it comes to which stop. Speed is None while there is one position only."""

    position: Position
    along: float
    speed: float | None
    arrivals: tuple[tuple[str, int], ...]


def latest_two(positions: Iterable[Position]) -> tuple[Position, ...]:
    """The last two by time, the earlier one first: all that a bus's state has to hold, and the same in
    whatever order the positions came. Of several at one time the greatest counts."""
    return tuple(sorted({p.time: p for p in sorted(positions)}.values())[-2:])


def motion(latest: tuple[Position, ...], route: Route) -> Motion:
    """What one or two positions, as from `latest_two`, say. Buses go forward only; on another route than
    before a bus starts anew."""
    last = latest[-1]
    along = route.along(last.x, last.y)
    if len(latest) < 2 or latest[0].route != last.route:
        return Motion(last, along, None, ())
    before = latest[0]
    metres = (along - route.along(before.x, before.y)) % route.length
    # A little back is where the noise of a standing bus's receiver lies, not once round.
    metres = 0.0 if metres > route.length * 0.9 else metres
    speed = metres / ((last.time - before.time) / 1000)
    if speed < STANDING:
        return Motion(last, along, speed, ())
    coming = route.coming(along, COMING_STOPS)
    arrivals = tuple((stop.name, last.time + round(ahead / speed * 1000)) for stop, ahead in coming)
    return Motion(last, along, speed, arrivals)
