"""The generated input is reproducible; the recount finds what is planted, and the evaluation agrees with it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import datetime

import pytest

from examples.fraud_alerts.check import Truth, truth
from examples.fraud_alerts.customer import Payment
from examples.fraud_alerts.evaluation import CONFIRMED, NEVER, Claimed, Evaluator, Place
from examples.fraud_alerts.generator import LATE_BY, START, Generator, events
from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import euro_cents
from examples.fraud_alerts.provisional import profile
from examples.fraud_alerts.topics import DEVICES, TRANSACTIONS
from examples.kit.load import Event, Load

LOAD = Load(seed=3, rate=100, seconds=30, late=0.3)


@pytest.fixture(scope="module")
def generated() -> list[Event]:
    return list(events(LOAD))


@pytest.fixture(scope="module")
def wanted(generated: list[Event]) -> Truth:
    return truth(generated)


def test_the_same_seed_makes_the_same_events(generated: list[Event]) -> None:
    assert list(events(LOAD)) == generated
    assert list(events(Load(seed=4, rate=100, seconds=30, late=0.3))) != generated


def test_what_is_planted_is_due() -> None:
    load = Load(seed=5, rate=100, seconds=60, late=0.0)
    generator = Generator(load)
    due = truth(generator.events()).by_rule
    planted = generator.planted
    assert min(planted.values()) > 0
    # The large payments of a tested card may be maxima, too; what is planted near the end may be cut off.
    assert due["location"] == planted["location"]
    assert planted["amount"] <= due["amount"] <= planted["amount"] + 3 * planted["testing"]
    assert planted["testing"] - 1 <= due["card testing"] <= planted["testing"]
    assert due["together"] >= planted["pair"] - 3


def test_every_event_is_within_the_lateness(generated: list[Event]) -> None:
    for topic in (TRANSACTIONS.topic, DEVICES.topic):
        good = (event for event in generated if event.topic == topic and not event.reason and event.at > 0)
        # A copy may come later still: the first one counts.
        times = [time_of(value) for value in dict.fromkeys(event.value for event in good)]
        newest = list(itertools.accumulate(times, max))
        assert max(a - b for a, b in zip(newest, times, strict=True)) < LIMITS.lateness_ms
        assert any(a > b for a, b in zip(newest, times, strict=True)), "nothing is late"
    assert LIMITS.lateness_ms > LATE_BY * 1000


def test_copies_bad_records_and_all_currencies_occur(generated: list[Event]) -> None:
    payments = [event for event in generated if event.topic == TRANSACTIONS.topic]
    assert any(event.reason for event in payments)
    good = [json.loads(event.value) for event in payments if not event.reason]
    assert len({fields["id"] for fields in good}) < len(good)
    assert {fields["currency"] for fields in good} == {"EUR", "USD", "GBP", "CHF", "SEK", "JPY"}


@pytest.mark.parametrize("size", [1, 50, 5000])
def test_the_evaluation_confirms_what_the_recount_finds(
    generated: list[Event], wanted: Truth, size: int
) -> None:
    evaluator = Evaluator(LIMITS, {"payments": NEVER, "phones": NEVER})
    confirmed = [
        (verdict.transaction, verdict.rule)
        for batch in chunks(generated, size)
        for verdict in evaluator.batch(*parsed(batch)).verdicts
        if verdict.status == CONFIRMED
    ]  # fmt: skip
    due = {alert for alert in wanted.alerts if alert[1] != "card testing"}
    assert len(confirmed) == len(set(confirmed))
    assert set(confirmed) == due
    assert {rule for _, rule in due} == {"amount", "together", "location"}


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8, 0.9])
def test_no_profile_however_old_misses_an_amount(generated: list[Event], wanted: Truth, share: float) -> None:
    """The fast path alerts what is above the maximum of the profile that it started with."""
    evaluator = Evaluator(LIMITS, {"payments": NEVER, "phones": NEVER})
    place = round(len(generated) * share)
    before, after = tuple(generated[:place]), tuple(generated[place:])
    evaluator.batch(*parsed(before))
    known = {row["customer"]: row["highest"] for row in profile(evaluator.customers).to_pylist()}
    alerted = {
        payment.id for payment in parsed(after)[0] if payment.amount > (known.get(payment.customer) or -1)
    }
    evaluated_before = {payment.id for payment in parsed(before)[0]}
    due = {id for id, rule in wanted.alerts if rule == "amount"} - evaluated_before
    assert due and due <= alerted


def test_the_recount_of_a_case_small_enough_to_count_by_hand() -> None:
    sent = [payment(f"p{n}", n * 60, 1000) for n in range(3)]
    sent += [
        phone(170, 48.9),
        payment("high", 180, 1001),
        payment("pair", 190, 500),
        payment("pair", 190, 500),
    ]
    sent += [payment("far", 240, 500, latitude=45.8), phone(239, 48.9), phone(241, 45.8)]
    result = truth(sent)
    assert result.alerts == {("high", "amount"), ("pair", "together"), ("far", "location")}
    assert result.payments == 6
    window = ("shop", "FR", START * 1000 + 60_000)
    assert result.windows[window] == (5, 1000 + 1000 + 1001 + 500 + 500, 3)


def payment(id: str, second: float, cents: int, latitude: float = 48.9) -> Event:
    fields = {
        "id": id, "customer": "ann", "amount": cents, "currency": "EUR", "merchant": "shop", "country": "FR",
        "latitude": latitude, "longitude": 2.4, "time": stamp(second),
    }  # fmt: skip
    return Event(second, TRANSACTIONS.topic, json.dumps(fields).encode(), b"ann")


def phone(second: float, latitude: float) -> Event:
    fields = {"customer": "ann", "latitude": latitude, "longitude": 2.4, "time": stamp(second)}
    return Event(second, DEVICES.topic, json.dumps(fields).encode(), b"ann")


def stamp(second: float) -> str:
    return datetime.fromtimestamp(START + second).astimezone().isoformat()


def time_of(value: bytes) -> int:
    return round(datetime.fromisoformat(json.loads(value)["time"]).timestamp() * 1000)


def parsed(
    batch: tuple[Event, ...],
) -> tuple[list[Payment], list[Place], list[Claimed], dict[str, int]]:
    """What the evaluator gets of a batch from one partition of each topic."""
    payments, places = [], []
    for event in batch:
        if event.reason:
            continue
        fields, time = json.loads(event.value), time_of(event.value)
        place = (fields["latitude"], fields["longitude"])
        if event.topic == DEVICES.topic:
            places.append(Place(fields["customer"], time, *place))
        else:
            cents = euro_cents(fields["amount"], fields["currency"])
            names = (fields["merchant"], fields["country"])
            payments.append(Payment(fields["id"], fields["customer"], cents, *names, *place, time, time))
    newest = {
        name: [e.time for e in events_of] for name, events_of in (("payments", payments), ("phones", places))
    }
    return payments, places, [], {name: max(times) for name, times in newest.items() if times}


def chunks(generated: list[Event], size: int) -> Iterator[tuple[Event, ...]]:
    """`itertools.batched`, which Python 3.11 has not."""
    for begin in range(0, len(generated), size):
        yield tuple(generated[begin : begin + size])
