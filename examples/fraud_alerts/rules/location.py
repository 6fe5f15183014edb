"""The phone's last known location, at the payment's time, too far from the terminal.

Both times are event times, so the answer is final once no earlier report of the phone can come any more.
"""

from __future__ import annotations

from bisect import bisect_right
from math import asin, cos, inf, radians, sin, sqrt

NAME = "location"
EARTH_KM = 6371.0

# A report of a phone: event time in ms, latitude, longitude in degrees.
Report = tuple[int, float, float]


def last_known(reports: list[Report], time: int) -> Report | None:
    """The newest of the reports, which are sorted, at or before `time`."""
    place = bisect_right(reports, (time, inf, inf))
    return reports[place - 1] if place else None


def distance_km(latitude: float, longitude: float, other_latitude: float, other_longitude: float) -> float:
    """Great-circle distance on a sphere, by the haversine formula."""
    north, east = radians(other_latitude - latitude), radians(other_longitude - longitude)
    chord = sin(north / 2) ** 2 + cos(radians(latitude)) * cos(radians(other_latitude)) * sin(east / 2) ** 2
    return 2 * EARTH_KM * asin(sqrt(min(1.0, chord)))


def reason(kilometres: float) -> str:
    return f"the phone was {kilometres:.0f} km from the terminal"
