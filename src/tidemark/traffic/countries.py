"""Countries of visitors: each one's share of visits, and the longitude that determines its local time."""

from __future__ import annotations

from math import cos, pi
from typing import NamedTuple


class Country(NamedTuple):
    """ISO 3166-1 alpha-2 `code`, relative `share` of visits, mean `longitude` of its people in degrees."""

    code: str
    share: float
    longitude: float


# ZZ: addresses without a country, such as a private network behind a proxy.
COUNTRIES = (
    Country("US", 240, -90), Country("IN", 75, 78), Country("GB", 70, -1), Country("DE", 68, 10),
    Country("BR", 48, -47), Country("FR", 46, 3), Country("JP", 42, 138), Country("CA", 36, -85),
    Country("CN", 30, 113), Country("ES", 27, -4), Country("IT", 27, 11), Country("NL", 25, 5),
    Country("AU", 24, 148), Country("MX", 22, -100), Country("PL", 20, 20), Country("ID", 19, 109),
    Country("KR", 18, 127), Country("RU", 17, 45), Country("TR", 15, 32), Country("SE", 12, 16),
    Country("CH", 11, 8), Country("UA", 10, 31), Country("AR", 10, -60), Country("ZA", 10, 28),
    Country("VN", 9, 106), Country("BE", 9, 4), Country("AT", 9, 15), Country("PH", 9, 121),
    Country("SG", 8, 104), Country("TW", 8, 121), Country("NG", 8, 6), Country("CO", 8, -74),
    Country("PK", 7, 71), Country("EG", 7, 31), Country("DK", 7, 11), Country("NO", 7, 10),
    Country("FI", 7, 25), Country("CZ", 7, 15), Country("PT", 7, -9), Country("IE", 6, -7),
    Country("RO", 6, 26), Country("TH", 6, 101), Country("MY", 6, 102), Country("IL", 6, 35),
    Country("GR", 5, 23), Country("HU", 5, 19), Country("NZ", 5, 174), Country("CL", 5, -71),
    Country("SA", 5, 45), Country("AE", 5, 55), Country("KE", 4, 37), Country("MA", 3, -7),
    Country("PE", 3, -76), Country("BD", 3, 90), Country("BG", 3, 24), Country("HK", 3, 114),
    Country("LK", 1, 80), Country("IS", 0.5, -22), Country("ZZ", 2, 0),
)  # fmt: skip

_PEAK_HOUR = 20


def activity(longitude: float, seconds: float) -> float:
    """Activity of people at a longitude at a UTC time in epoch seconds: from 0.2 to 1, mean 0.6.

    The minimum is in the early morning of mean solar time, the maximum in the evening.
    """
    local_hour = seconds / 3600 + longitude / 15
    return 0.6 + 0.4 * cos((local_hour - _PEAK_HOUR) * pi / 12)


MEAN_ACTIVITY = 0.6


def volume(seconds: float) -> float:
    """World-wide activity at a UTC time, as a multiple of the daily mean."""
    total = sum(country.share for country in COUNTRIES)
    return sum(c.share * activity(c.longitude, seconds) for c in COUNTRIES) / (total * MEAN_ACTIVITY)
