"""Places for made payments: country, latitude, longitude, currency. All are more than 150 km apart."""

from __future__ import annotations

from typing import NamedTuple


class City(NamedTuple):
    country: str
    latitude: float
    longitude: float
    currency: str


CITIES = (
    City("FR", 48.857, 2.352, "EUR"),
    City("FR", 45.764, 4.836, "EUR"),
    City("DE", 52.520, 13.405, "EUR"),
    City("DE", 48.135, 11.582, "EUR"),
    City("ES", 40.417, -3.704, "EUR"),
    City("IT", 41.903, 12.496, "EUR"),
    City("GB", 51.507, -0.128, "GBP"),
    City("CH", 47.377, 8.541, "CHF"),
    City("SE", 59.329, 18.069, "SEK"),
    City("US", 40.713, -74.006, "USD"),
    City("US", 34.052, -118.244, "USD"),
    City("JP", 35.690, 139.692, "JPY"),
)
MERCHANTS = tuple(f"merchant-{number:02}" for number in range(24))
