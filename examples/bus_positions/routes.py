"""The town: three ring lines on a plane in metres, and the position of a bus on its line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import hypot

Point = tuple[float, float]


@dataclass(frozen=True)
class Stop:
    """A stop of a route, `along` metres from the route's start."""

    name: str
    along: float


@dataclass(frozen=True)
class Route:
    """A closed line through corners (metres east and north of the town's centre), in their order."""

    name: str
    corners: tuple[Point, ...]
    stop_count: int

    @cached_property
    def sides(self) -> tuple[tuple[Point, Point], ...]:
        return tuple(pairwise((*self.corners, self.corners[0])))

    @cached_property
    def starts(self) -> tuple[float, ...]:
        """Metres from the start to the beginning of each side; the last value is the total length."""
        lengths = (hypot(b[0] - a[0], b[1] - a[1]) for a, b in self.sides)
        return tuple(accumulate(lengths, initial=0.0))

    @property
    def length(self) -> float:
        return self.starts[-1]

    @cached_property
    def stops(self) -> tuple[Stop, ...]:
        """Evenly spaced stops."""
        each = self.length / self.stop_count
        return tuple(Stop(f"{self.name} {n + 1}", n * each) for n in range(self.stop_count))

    def point(self, along: float) -> Point:
        """The point `along` metres from the start; a full round leads back to the start."""
        along %= self.length
        side = min(bisect_right(self.starts, along), len(self.sides)) - 1
        (x, y), (to_x, to_y) = self.sides[side]
        part = (along - self.starts[side]) / (self.starts[side + 1] - self.starts[side])
        return x + part * (to_x - x), y + part * (to_y - y)

    def along(self, x: float, y: float) -> float:
        """Metres from the start to the point of the line nearest to (x, y)."""
        return min(self._nearest(side, x, y) for side in range(len(self.sides)))[1] % self.length

    def _nearest(self, side: int, x: float, y: float) -> tuple[float, float]:
        """Distance from (x, y) to a side, and metres from the start to the nearest point."""
        (from_x, from_y), (to_x, to_y) = self.sides[side]
        east, north = to_x - from_x, to_y - from_y
        length = hypot(east, north)
        part = min(1.0, max(0.0, ((x - from_x) * east + (y - from_y) * north) / length**2))
        distance = hypot(from_x + part * east - x, from_y + part * north - y)
        return distance, self.starts[side] + part * length

    def coming(self, along: float, count: int) -> Sequence[tuple[Stop, float]]:
        """The next stops after a point, each with its distance in metres; a stop at the point itself is passed."""
        ahead = [(stop, (stop.along - along) % self.length or self.length) for stop in self.stops]
        return sorted(ahead, key=lambda item: item[1])[:count]


ROUTES: dict[str, Route] = {
    route.name: route
    for route in (
        Route("Harbour", ((-4000, -2500), (-500, -3200), (1500, -1200), (300, 600), (-3200, 200)), 10),
        Route("Hill", ((-800, -600), (2600, -900), (4200, 1500), (2200, 3300), (-300, 2100)), 9),
        Route("Ring", ((-3000, -3600), (3600, -3000), (4600, 2600), (-600, 4000), (-4400, 1400)), 14),
    )
}
