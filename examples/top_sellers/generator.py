"""A shop at 600 times its speed: sales, refunds and changes of the catalogue."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Any

from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled
from examples.top_sellers.topics import CATALOGUE, SALES

# Two hours before midnight, so that a short run sees two days.
BEGIN = datetime(2026, 4, 30, 22, 15, tzinfo=UTC).timestamp()
SPEED = 600
# An order may arrive up to 80 minutes of the shop's time late, across hours and midnight.
LATE_SECONDS = 8.0
BAD = 0.01
REFUNDED = 0.08
PRODUCTS = [f"P{number:02}" for number in range(40)]
# Few best sellers, and many products with equal sales, which makes ties.
WEIGHTS = [1 / (3 + number // 4) for number in range(len(PRODUCTS))]


def events(load: Load) -> Iterator[Event]:
    """Sales and news of the catalogue, in the order of sending."""
    return delayed(
        heapq.merge(_sales(load), _catalogue(load), key=lambda event: event.at), load, LATE_SECONDS
    )


def _sales(load: Load) -> Iterator[Event]:
    chance = load.random("sales")
    refunds: list[tuple[float, int, Event]] = []
    for number, at in enumerate(load.times()):
        while refunds and refunds[0][0] <= at:
            yield heapq.heappop(refunds)[2]
        (product,) = chance.choices(PRODUCTS, WEIGHTS)
        sale = {
            "order": f"O{number}",
            "kind": "purchase",
            "product": product,
            "quantity": chance.randint(1, 3),
            "event_time": iso(BEGIN + at * SPEED),
        }
        if chance.random() < BAD:
            yield _bad(at, sale, chance)
            continue
        yield Event(at, SALES.topic, as_json(sale), product.encode())
        if chance.random() < REFUNDED:
            back = {**sale, "kind": "refund", "quantity": chance.randint(1, int(str(sale["quantity"])))}
            refunded_at = at + chance.uniform(0, 4)
            refund = Event(refunded_at, SALES.topic, as_json(back), product.encode())
            heapq.heappush(refunds, (refunded_at, number, refund))
    while refunds:
        yield heapq.heappop(refunds)[2]


def _bad(at: float, sale: dict[str, Any], chance: Random) -> Event:
    if chance.random() < 0.5:
        value, reason = as_json({**sale, "quantity": 0, "kind": "gift"}), "known_kind,positive_quantity"
    else:
        value, reason = spoiled(sale, "event_time", chance)
        broken = {"missing_kind": ",known_kind", "missing_quantity": ",positive_quantity"}
        reason += broken.get(reason, "")
    return Event(at, SALES.topic, value, reason=reason)


def _catalogue(load: Load) -> Iterator[Event]:
    """First every product, some of them after their first sales; then, twice a second, a changed
    price or name, sent before or after it is valid."""
    chance = load.random("catalogue")
    opening = BEGIN // 86_400 * 86_400
    first = [
        _entry(
            0.0 if chance.random() < 0.8 else chance.uniform(1, 5),
            product,
            1,
            chance.randint(99, 9_999),
            opening,
        )
        for product in PRODUCTS
    ]
    changes = _changes(load, chance)
    yield from heapq.merge(sorted(first, key=lambda event: event.at), changes, key=lambda event: event.at)


def _changes(load: Load, chance: Random) -> Iterator[Event]:
    for number, at in enumerate(Load(load.seed, 2, load.seconds).times()):
        valid_from = BEGIN + (at + chance.uniform(-3, 3)) * SPEED
        yield _entry(at, chance.choice(PRODUCTS), number + 2, chance.randint(99, 9_999), valid_from)


def _entry(at: float, product: str, edition: int, price_cents: int, valid_from: float) -> Event:
    fields = {
        "product": product,
        "name": f"{product} edition {edition}",
        "price_cents": price_cents,
        "valid_from": iso(valid_from // 60 * 60),
    }
    return Event(at, CATALOGUE.topic, as_json(fields), product.encode(), 0)
