"""The state of one customer, and its form in the topic of states."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from examples.fraud_alerts.rules.location import Report
from examples.fraud_alerts.rules.together import Moment


class Payment(NamedTuple):
    """An accepted transaction. `amount` in euro cents, `time` event time in ms; `produced` is when the record
    was written to Kafka (ms)."""

    id: str
    customer: str
    amount: int
    merchant: str
    country: str
    latitude: float
    longitude: float
    time: int
    produced: int


class Claim(NamedTuple):
    """A provisional alert that has been given out, of a payment of that event time."""

    transaction: str
    rule: str
    time: int


@dataclass
class Customer:
    """`count`, `highest`: number and maximum of all payments.

    `moments`: recent payments by event time; `reports`: the phone's places, the newest that is out of
    reach of late ones and all after; `waiting`: payments whose place is still to be evaluated; `known`:
    event times of recent ids; `decided`: which rules were confirmed (true) or withdrawn for them; `claims`:
    provisional alerts that wait for their evaluation.
    """

    count: int = 0
    highest: int = 0
    moments: list[Moment] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    waiting: dict[str, Payment] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    decided: dict[str, dict[str, bool]] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    def forget(self, watermark: int, together_ms: int, remember_ms: int) -> None:
        """Drops what no event that is not too late can need."""
        self.moments = [moment for moment in self.moments if moment[0] >= watermark - together_ms]
        passed = sum(report[0] <= watermark for report in self.reports)
        self.reports = self.reports[max(0, passed - 1) :]
        old = [id for id, time in self.known.items() if time < watermark - remember_ms]
        for id in old:
            if id not in self.waiting:
                del self.known[id]
                self.decided.pop(id, None)

    def encode(self) -> bytes:
        values = [
            self.count, self.highest, self.moments, self.reports, list(self.waiting.values()),
            self.known, self.decided, self.claims,
        ]  # fmt: skip
        return json.dumps(values, separators=(",", ":")).encode()


def decode(value: bytes) -> Customer:
    """The inverse of `Customer.encode`."""
    count, highest, moments, reports, waiting, known, decided, claims = json.loads(value)
    payments = [Payment(*fields) for fields in waiting]
    return Customer(
        count, highest, [(time, id) for time, id in moments], [(t, a, o) for t, a, o in reports],
        {payment.id: payment for payment in payments}, known, decided, [Claim(*claim) for claim in claims],
    )  # fmt: skip
