"""Made payments and phones with planted frauds, reproducible from a seed.

Customers pay in turn, far enough apart that no pair of payments comes about by chance; before the start each
has paid a few times and reported the phone once. Planted are amounts above the maximum, distant phones, pairs,
sequences that test a card, journeys (whose phone reports may be late), copies of payments, unknown customers and
bad records. `check.py` recounts what must be alerted from the records themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from examples.fraud_alerts.cities import CITIES, MERCHANTS, City
from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import RATES
from examples.fraud_alerts.topics import DEVICES, TRANSACTIONS
from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled

# Event time when a run starts: 2026-01-05, 12:00 UTC.
START = 1_767_614_400
# Seconds between two turns of a customer.
TURN = 20
HISTORY = 4
# Below the allowed lateness: sending itself takes a moment, too.
LATE_BY = LIMITS.lateness_ms / 1000 * 0.8
# When the closing events come, that move the watermark past all others (but not past themselves).
CLOSING = LIMITS.lateness_ms / 1000 + 1.5
CLOSER = "closing"

_SHARES = {"amount": 0.010, "location": 0.005, "pair": 0.005, "testing": 0.003, "journey": 0.005}
_COPIES, _BAD, _NEW = 0.01, 0.005, 0.02


def events(load: Load) -> Iterator[Event]:
    """Payments and reports of phones, in the order in which they are to be sent."""
    yield from Generator(load).events()


@dataclass
class Person:
    """A customer: where the phone is, the highest amount (euro cents) ever meant to be paid honestly."""

    name: str
    home: City
    highest: int
    known: bool
    place: City = field(init=False)

    def __post_init__(self) -> None:
        self.place = self.home


class Generator:
    """Makes the events of a load. `planted` counts the frauds."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._random = load.random("payments")
        self._people = people(load)
        self._numbers = 0
        self.planted = dict.fromkeys(_SHARES, 0)

    def events(self) -> Iterator[Event]:
        """All in the order in which they are to be sent."""
        yield from self._history()
        yield from delayed(self._in_order(), self._load, by=LATE_BY)
        if self._load.seconds is not None:
            yield from self._closing(self._load.seconds + CLOSING)

    def _history(self) -> Iterator[Event]:
        """Payments and phone reports of the hours before the start."""
        random = self._load.random("history")
        for hour in range(HISTORY, 0, -1):
            for person in self._people:
                if person.known or hour == 1:
                    amount = person.highest if hour == 2 else random.randint(500, person.highest)
                    yield self._payment(random, person, -3600.0 * hour, amount)
        for person in self._people:
            if person.known:
                yield self._report(random, person, -60.0)

    def _in_order(self) -> Iterator[Event]:
        planned: list[tuple[float, int, Event]] = []
        end = self._load.seconds
        for number, at in enumerate(self._load.times()):
            for event in self._turn(self._people[number % len(self._people)], at):
                if end is None or event.at < end:
                    self._numbers += 1
                    heapq.heappush(planned, (event.at, self._numbers, event))
            if self._random.random() < 0.5:
                other = self._people[number * 7919 % len(self._people)]
                if other.known:
                    self._numbers += 1
                    heapq.heappush(planned, (at, self._numbers, self._report(self._random, other, at)))
            while planned and planned[0][0] <= at:
                yield heapq.heappop(planned)[2]
        while planned:
            yield heapq.heappop(planned)[2]

    def _turn(self, person: Person, at: float) -> Iterator[Event]:
        """One payment, and what belongs to it."""
        random = self._random
        amount = random.randint(500, person.highest)
        kind = _choose(random) if person.known else ""
        if kind:
            self.planted[kind] += 1
        if kind == "amount":
            person.highest = random.randint(person.highest + 1, person.highest * 3)
            amount = person.highest
        if kind == "journey":
            person.place = _elsewhere(random, person.place)
            yield self._report(random, person, at - 0.5)
        city = _elsewhere(random, person.place) if kind == "location" else None
        if kind == "testing":
            yield self._payment(random, person, at, random.randint(110, 199))
            for number in range(3):
                large = random.randint(31_000, 90_000)
                person.highest = max(person.highest, large)
                yield self._payment(random, person, at + 0.5 * (number + 1), large)
            return
        payment = self._payment(random, person, at, amount, city)
        yield payment
        if kind == "pair":
            again = at + random.uniform(0.2, 9.5)
            yield self._payment(random, person, again, random.randint(500, person.highest))
        if random.random() < _COPIES:
            yield payment._replace(at=at + random.uniform(0.0, 3.0))
        if random.random() < _BAD:
            yield self._bad(random, person, at)

    def _payment(
        self, random: Random, person: Person, at: float, euro_cents: int, city: City | None = None
    ) -> Event:
        fields = self._fields(random, person, at, euro_cents, city or person.place)
        return Event(at, TRANSACTIONS.topic, as_json(fields), person.name.encode())

    def _fields(
        self, random: Random, person: Person, at: float, euro_cents: int, city: City
    ) -> dict[str, object]:
        self._numbers += 1
        # The maximum itself in euros; what is less may become a cent more when it is converted back.
        currency = "EUR" if euro_cents == person.highest else city.currency
        return {
            "id": f"t{self._numbers}",
            "customer": person.name,
            "amount": -(-euro_cents * 1_000_000 // RATES[currency]),
            "currency": currency,
            "merchant": random.choice(MERCHANTS),
            "country": city.country,
            "latitude": round(city.latitude + random.uniform(-0.05, 0.05), 5),
            "longitude": round(city.longitude + random.uniform(-0.05, 0.05), 5),
            "time": iso(START + at),
        }

    def _report(self, random: Random, person: Person, at: float) -> Event:
        fields = {
            "customer": person.name,
            "latitude": round(person.place.latitude + random.uniform(-0.1, 0.1), 5),
            "longitude": round(person.place.longitude + random.uniform(-0.1, 0.1), 5),
            "time": iso(START + at),
        }
        return Event(at, DEVICES.topic, as_json(fields), person.name.encode())

    def _bad(self, random: Random, person: Person, at: float) -> Event:
        fields = self._fields(random, person, at, 1000, person.place)
        value, reason = spoiled(fields, "amount", random)
        return Event(at, TRANSACTIONS.topic, value, person.name.encode(), reason=reason)

    def _closing(self, at: float) -> Iterator[Event]:
        """A last event for each partition."""
        random = self._load.random("closing")
        for partition in range(DEVICES.partitions):
            yield self._report(random, _closer(partition), at)._replace(partition=partition)
        for partition in range(TRANSACTIONS.partitions):
            yield self._payment(random, _closer(partition), at, 500)._replace(partition=partition)


def _closer(partition: int) -> Person:
    return Person(f"{CLOSER}{partition}", CITIES[0], 1000, known=False)


def people(load: Load) -> list[Person]:
    """So many customers that each has a turn every TURN seconds. A few are new: no history, no phone."""
    random = load.random("people")
    return [
        Person(f"c{number:06}", random.choice(CITIES), random.randint(5_000, 50_000), random.random() >= _NEW)
        for number in range(max(100, round(load.rate * TURN)))
    ]


def _choose(random: Random) -> str:
    chosen = random.random()
    for kind, share in _SHARES.items():
        chosen -= share
        if chosen < 0:
            return kind
    return ""


def _elsewhere(random: Random, place: City) -> City:
    return random.choice([city for city in CITIES if city is not place])
