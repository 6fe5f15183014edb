"""The exact evaluation without Spark: rules, lateness, copies, claims, and state that survives its encoding."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from examples.fraud_alerts.customer import Claim, Payment, decode
from examples.fraud_alerts.evaluation import (
    CONFIRMED,
    NEVER,
    WITHDRAWN,
    Claimed,
    Decisions,
    Evaluator,
    Place,
    Verdict,
)
from examples.fraud_alerts.limits import Limits
from examples.fraud_alerts.rules import amount, location, together

LIMITS = Limits(history=2, together_ms=10_000, distance_km=100, lateness_ms=5_000, remember_ms=60_000)
PARIS, LYON = (48.85, 2.35), (45.76, 4.84)


def paid(
    id: str, second: float, euros: int = 10, at: tuple[float, float] = PARIS, customer: str = "ann"
) -> Payment:
    time = round(second * 1000)
    return Payment(id, customer, euros * 100, "shop", "FR", *at, time, time)


def phone(second: float, at: tuple[float, float], customer: str = "ann") -> Place:
    return Place(customer, round(second * 1000), *at)


def started() -> Evaluator:
    return Evaluator(LIMITS, {"payments": NEVER, "phones": NEVER})


def take(
    evaluator: Evaluator, payments: list[Payment], places: list[Place], claims: list[Claimed]
) -> Decisions:
    """One batch, from one partition of each topic."""
    times = {"payments": [p.time for p in payments], "phones": [p.time for p in places]}
    newest = {partition: max(of_partition) for partition, of_partition in times.items() if of_partition}
    return evaluator.batch(payments, places, claims, newest)


def later(second: float) -> tuple[list[Payment], list[Place]]:
    """Events of others that move the watermark of both topics past `second`."""
    return [paid(f"w{second}", second + 6, customer="zoe")], [phone(second + 6, PARIS, customer="zoe")]


def alerts(verdicts: list[Verdict], status: str = CONFIRMED) -> list[tuple[str, str]]:
    return [(v.transaction, v.rule) for v in verdicts if v.status == status]


def test_an_amount_above_the_maximum_is_alerted_given_enough_history() -> None:
    evaluator = started()
    payments = [
        paid("a", 0, 10),
        paid("b", 100, 20),
        paid("c", 200, 20),
        paid("d", 300, 21),
        paid("e", 400, 21),
    ]
    assert alerts(take(evaluator, payments, [], []).verdicts) == [("d", "amount")]


def test_the_boundaries_of_the_amount_rule() -> None:
    assert amount.exceeds(11, highest=10, count=3, history=3)
    assert not amount.exceeds(10, highest=10, count=3, history=3)
    assert not amount.exceeds(11, highest=10, count=2, history=3)


def test_the_boundaries_of_the_rule_of_pairs() -> None:
    assert together.add([(0, "a")], (10_000, "b"), 10_000) == [((0, "a"), (10_000, "b"))]
    assert together.add([(0, "a")], (10_001, "b"), 10_000) == []
    assert together.add([(5, "b")], (5, "a"), 10_000) == [((5, "a"), (5, "b"))]


def test_a_late_payment_makes_the_next_one_an_alert() -> None:
    evaluator = started()
    assert not take(evaluator, [paid("b", 8)], [], []).verdicts
    assert alerts(take(evaluator, [paid("a", 4)], [], []).verdicts) == [("b", "together")]
    assert alerts(take(evaluator, [paid("c", 12)], [], []).verdicts) == [("c", "together")]


def test_a_payment_between_two_neighbours_alerts_each_once() -> None:
    evaluator = started()
    assert alerts(take(evaluator, [paid("a", 0), paid("c", 9)], [], []).verdicts) == [("c", "together")]
    assert alerts(take(evaluator, [paid("b", 5)], [], []).verdicts) == [("b", "together")]


@pytest.mark.parametrize(("kilometres", "local", "there"), [(0.0, PARIS, PARIS), (392.0, PARIS, LYON)])
def test_distance(kilometres: float, local: tuple[float, float], there: tuple[float, float]) -> None:
    assert location.distance_km(*local, *there) == pytest.approx(kilometres, abs=1)


def test_the_last_report_at_or_before_the_payment_counts() -> None:
    reports = [(1, 0.0, 0.0), (5, 1.0, 1.0), (9, 2.0, 2.0)]
    assert location.last_known(reports, 0) is None
    assert location.last_known(reports, 5) == (5, 1.0, 1.0)
    assert location.last_known(reports, 8) == (5, 1.0, 1.0)


def test_a_distant_phone_is_alerted_when_no_report_can_come_any_more() -> None:
    evaluator = started()
    assert not take(evaluator, [paid("a", 10, at=LYON)], [phone(1, PARIS)], []).verdicts
    assert not take(evaluator, *later(9), []).verdicts
    assert alerts(take(evaluator, *later(20), []).verdicts) == [("a", "location")]


def test_a_late_report_decides_either_way() -> None:
    evaluator = started()
    take(evaluator, [paid("there", 10, at=LYON), paid("here", 30)], [phone(1, PARIS)], [])
    take(evaluator, [], [phone(9, LYON)], [])
    assert alerts(take(evaluator, *later(40), []).verdicts) == [("here", "location")]


def test_an_unknown_customer_has_no_place_and_no_maximum() -> None:
    evaluator = started()
    take(evaluator, [paid("a", 10, 9999, customer="new")], [], [])
    assert not take(evaluator, *later(20), []).verdicts


def test_a_copy_of_a_payment_raises_nothing() -> None:
    evaluator = started()
    take(evaluator, [paid("a", 0), paid("b", 100), paid("c", 200, 99)], [], [])
    again = take(evaluator, [paid("c", 200, 99), paid("c", 200, 99)], [], [])
    assert again.verdicts == []
    assert [p.id for p in take(evaluator, *later(300), []).passed] == ["a", "b", "c"]


def test_payments_are_passed_on_in_order_of_time_once_no_earlier_one_can_come() -> None:
    evaluator = started()
    assert not take(evaluator, [paid("b", 12), paid("a", 10)], [phone(12, PARIS)], []).passed
    assert [p.id for p in take(evaluator, [paid("c", 16)], [phone(30, PARIS)], []).passed] == ["a"]
    assert [p.id for p in take(evaluator, [paid("d", 30)], [], []).passed] == ["b", "c"]


def test_the_watermark_waits_for_the_partition_that_is_behind() -> None:
    evaluator = Evaluator(LIMITS, {"0": NEVER, "1": NEVER})
    assert evaluator.batch([paid("a", 10)], [], [], {"0": 100_000}).passed == []
    assert evaluator.batch([], [], [], {"1": 15_000}).passed == []
    assert [p.id for p in evaluator.batch([], [], [], {"1": 15_001}).passed] == ["a"]


def test_a_claim_is_withdrawn_once_or_let_be() -> None:
    evaluator = started()
    claims = [Claimed("ann", Claim(id, "amount", time)) for id, time in [("b", 110_000), ("c", 130_000)]]
    # The claim may come before its payment.
    assert not take(evaluator, [paid("a", 90)], [], claims).verdicts
    verdicts = take(evaluator, [paid("b", 110, 9), paid("c", 130, 99)], [], []).verdicts
    assert alerts(verdicts) == [("c", "amount")]
    assert alerts(verdicts, WITHDRAWN) == [("b", "amount")]
    assert not take(evaluator, [], [], claims).verdicts


def test_a_claim_on_a_place_waits_for_the_watermark() -> None:
    evaluator = started()
    claim = Claimed("ann", Claim("a", "location", 10_000))
    assert not take(evaluator, [paid("a", 10)], [phone(1, PARIS)], [claim]).verdicts
    verdicts = take(evaluator, *later(20), []).verdicts
    assert alerts(verdicts, WITHDRAWN) == [("a", "location")]


def test_a_claim_too_old_to_be_known_is_dropped() -> None:
    evaluator = started()
    take(evaluator, *later(200), [])
    assert not take(evaluator, [], [], [Claimed("ann", Claim("old", "amount", 1000))]).verdicts
    assert evaluator.customers["ann"].claims == []


def test_state_does_not_grow() -> None:
    evaluator = started()
    for minute in range(60):
        time = minute * 60
        take(evaluator, [paid(f"a{minute}", time)], [phone(time, PARIS)], [])
    customer = evaluator.customers["ann"]
    assert len(customer.moments) <= 1 and len(customer.reports) <= 2 and len(customer.known) <= 3
    assert customer.count == 60


def some_events(seed: int) -> list[Payment | Place]:
    """Payments and reports in order of time, some copied."""
    random = Random(seed)
    items: list[Payment | Place] = []
    for number in range(120):
        second, name = number * 0.7, random.choice(["ann", "bob", "cid"])
        place = random.choice([PARIS, LYON])
        if random.random() < 0.4:
            items.append(phone(second, place, name))
        else:
            items.append(paid(f"p{number}", second, random.randint(1, 50), place, name))
            if random.random() < 0.2:
                items.append(items[-1])
    return items


def evaluated(batches: list[list[Payment | Place]], *, restart: bool) -> list[tuple[str, str]]:
    evaluator, result = started(), []
    for batch in [*batches, [*itertools.chain(*later(500))]]:
        payments = [e for e in batch if isinstance(e, Payment)]
        places = [e for e in batch if isinstance(e, Place)]
        decisions = take(evaluator, payments, places, [])
        result += alerts(decisions.verdicts)
        if restart:
            customers = {name: decode(customer.encode()) for name, customer in evaluator.customers.items()}
            evaluator = Evaluator(LIMITS, dict(evaluator.newest), customers)
    assert len(result) == len(set(result)), "an alert came twice"
    return sorted(result)


@pytest.mark.parametrize("seed", range(20))
def test_neither_batches_nor_restarts_nor_late_reports_matter(seed: int) -> None:
    events, random = some_events(seed), Random(seed)
    whole = evaluated([events], restart=False)
    assert whole

    # Reports come up to the allowed lateness after their time; payments keep their order.
    def sent(event: Payment | Place) -> float:
        return event.time + (random.uniform(0, 4_900) if isinstance(event, Place) else 0)

    late = sorted(events, key=sent)
    bounds = sorted(random.sample(range(len(late)), 15))
    batches = [late[a:b] for a, b in itertools.pairwise([0, *bounds, len(late)])]
    assert evaluated(batches, restart=True) == whole
