"""The exact evaluation: confirms provisional alerts, and withdraws those in error.

No Spark and no Kafka here: a batch of events goes in, verdicts come out, and which customers have changed. The
watermark is the newest event time of the partition that is furthest behind, less the allowed lateness; it moves
when a whole batch has been taken in. So it does not matter how the partitions are cut into batches.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from examples.fraud_alerts.customer import Claim, Customer, Payment
from examples.fraud_alerts.limits import Limits
from examples.fraud_alerts.rules import amount, location, together

CONFIRMED, WITHDRAWN, PROVISIONAL = "confirmed", "withdrawn", "provisional"
NEVER = -(2**62)


class Verdict(NamedTuple):
    """A decision on one rule of one payment. `first`: the first alert of the payment, which makes it count as
    flagged. `produced`: when the event that brought the decision was written to Kafka (ms)."""

    transaction: str
    customer: str
    rule: str
    status: str
    reason: str
    produced: int
    first: bool = False
    merchant: str = ""
    country: str = ""
    amount: int = 0
    time: int = 0


class Decisions(NamedTuple):
    """The results of a batch: verdicts, the payments that the watermark has passed (each once, copies left out,
    in order of time and after all of earlier batches, but for those that were too late), and the customers
    whose state changed."""

    verdicts: list[Verdict]
    passed: list[Payment]
    changed: set[str]


class Place(NamedTuple):
    """A report of a customer's phone."""

    customer: str
    time: int
    latitude: float
    longitude: float


class Claimed(NamedTuple):
    """A provisional alert, as read from its topic."""

    customer: str
    claim: Claim


@dataclass
class Evaluator:
    """Evaluates batch by batch. `newest` has the newest event time (ms) of each partition of both topics, NEVER
    before its first: the watermark waits for all of them."""

    limits: Limits
    newest: dict[str, int]
    customers: dict[str, Customer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Payments by time, to find those that the watermark has passed.
        self._due = [(p.time, p.customer, p.id) for c in self.customers.values() for p in c.waiting.values()]
        heapq.heapify(self._due)
        self._changed: set[str] = set()
        self._passed: list[Payment] = []

    @property
    def watermark(self) -> int:
        return max(NEVER, min(self.newest.values()) - self.limits.lateness_ms)

    def batch(
        self,
        payments: Iterable[Payment],
        places: Iterable[Place],
        claims: Iterable[Claimed],
        newest: Mapping[str, int],
    ) -> Decisions:
        """Takes in the events of one batch; each customer's payments are in the order of their offsets.
        `newest` has the newest event time in the batch for partitions that it has events of."""
        self._changed, self._passed = set(), []
        verdicts: list[Verdict] = []
        for place in places:
            customer = self._customer(place.customer)
            insort(customer.reports, (place.time, place.latitude, place.longitude))
        for payment in payments:
            verdicts += self._pay(self._customer(payment.customer), payment)
        for name, claim in claims:
            self._customer(name).claims.append(claim)
        for partition, time in newest.items():
            self.newest[partition] = max(self.newest[partition], time)
        verdicts += self._places_due()
        for name in self._changed:
            customer = self.customers[name]
            verdicts += _settle(name, customer, self.watermark - self.limits.remember_ms)
            customer.forget(self.watermark, self.limits.together_ms, self.limits.remember_ms)
        return Decisions(verdicts, self._passed, self._changed)

    def _customer(self, name: str) -> Customer:
        self._changed.add(name)
        return self.customers.setdefault(name, Customer())

    def _pay(self, customer: Customer, payment: Payment) -> Iterator[Verdict]:
        if payment.id in customer.known:
            return
        customer.known[payment.id] = payment.time
        highest, count = customer.highest, customer.count
        customer.highest, customer.count = max(highest, payment.amount), count + 1
        if amount.exceeds(payment.amount, highest, count, self.limits.history):
            yield _confirm(customer, payment, amount.NAME, amount.reason(payment.amount, highest))
        new = (payment.time, payment.id)
        for earlier, later in together.add(customer.moments, new, self.limits.together_ms):
            reason = together.reason(earlier, later)
            # A payment whose follower is no longer there was too late to be evaluated exactly.
            flagged = payment if later == new else customer.waiting.get(later[1])
            if flagged and together.NAME not in customer.decided.get(later[1], {}):
                yield _confirm(customer, flagged._replace(produced=payment.produced), together.NAME, reason)
        customer.waiting[payment.id] = payment
        heapq.heappush(self._due, (payment.time, payment.customer, payment.id))

    def _places_due(self) -> Iterator[Verdict]:
        """The location rule for payments that the watermark has passed: all reports that count are here."""
        while self._due and self._due[0][0] < self.watermark:
            _, name, id = heapq.heappop(self._due)
            customer = self._customer(name)
            payment = customer.waiting.pop(id)
            self._passed.append(payment)
            report = location.last_known(customer.reports, payment.time)
            if report:
                far = location.distance_km(payment.latitude, payment.longitude, report[1], report[2])
                if far > self.limits.distance_km:
                    yield _confirm(customer, payment, location.NAME, location.reason(far))


def _confirm(customer: Customer, payment: Payment, rule: str, reason: str) -> Verdict:
    decided = customer.decided.setdefault(payment.id, {})
    first = not any(decided.values())
    decided[rule] = True
    return Verdict(
        payment.id, payment.customer, rule, CONFIRMED, reason, payment.produced,
        first, payment.merchant, payment.country, payment.amount, payment.time,
    )  # fmt: skip


def _settle(name: str, customer: Customer, remembered: int) -> Iterator[Verdict]:
    """Withdraws the claims that the evaluation contradicts, once each. Claims on payments older than
    `remembered` (ms) are dropped: whether those were confirmed is no longer known here."""
    pending = []
    for claim in customer.claims:
        decided = customer.decided.get(claim.transaction, {})
        if claim.time < remembered or claim.rule in decided:
            continue
        evaluated = claim.transaction in customer.known
        if not evaluated or (claim.rule == location.NAME and claim.transaction in customer.waiting):
            pending.append(claim)
            continue
        customer.decided.setdefault(claim.transaction, {})[claim.rule] = False
        reason = "the full history says otherwise"
        yield Verdict(claim.transaction, name, claim.rule, WITHDRAWN, reason, 0)
    customer.claims = pending
