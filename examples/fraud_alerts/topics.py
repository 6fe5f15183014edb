"""The topics: what their records look like, and what makes one bad."""

from __future__ import annotations

from datetime import timedelta

from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import MOST, RATES
from examples.kit.events import Events
from tidemark.contract.expression import Expression, column
from tidemark.contract.rules import RejectingRule


def _within(name: str, limit: float) -> Expression:
    return column(name).is_null() | column(name).between(-limit, limit)


# A missing field is reported as missing, not as wrong, too.
_PLACE_AND_TIME = (
    RejectingRule(
        "place_not_on_earth", _within("latitude", 90.0) & _within("longitude", 180.0), "latitude",
        "The coordinates are those of a place.",
    ),
    # A time ahead of Kafka's clock would move the watermark past honest events.
    RejectingRule(
        "time_ahead", column("time") <= column("record_timestamp") + timedelta(milliseconds=LIMITS.lateness_ms),
        "time", "The time is not ahead of Kafka's clock.", unless=column("time").is_null(),
    ),
)  # fmt: skip

# Keyed by customer: the order in a customer's partition is the order of that customer's payments.
TRANSACTIONS = Events(
    topic="transactions",
    schema="id string, customer string, amount long, currency string, merchant string, country string,"
    " latitude double, longitude double, time timestamp",
    rules=(
        RejectingRule(
            "amount_not_positive", column("amount") > 0, "amount", "The amount is positive.",
            unless=column("amount").is_null(),
        ),
        RejectingRule(
            "amount_too_large", column("amount") <= MOST, "amount", "The amount in any currency fits a long.",
            unless=column("amount").is_null(),
        ),
        RejectingRule(
            "unknown_currency", column("currency").isin(list(RATES)), "currency", "The currency has a rate.",
            unless=column("currency").is_null(),
        ),
        *_PLACE_AND_TIME,
    ),
    collected=True,
)  # fmt: skip

# Keyed by customer, too.
DEVICES = Events(
    topic="devices",
    schema="customer string, latitude double, longitude double, time timestamp",
    rules=_PLACE_AND_TIME,
    collected=True,
)

# Alerts, keyed by transaction: JSON objects with transaction, customer, rule, status, reason, decided_at, …
ALERTS = "alerts"
# What is read of them: the provisional ones are claims, to be confirmed or withdrawn.
CLAIMS = Events(
    ALERTS, "transaction string, customer string, rule string, status string, time long", collected=True
)
# Each payment once when the watermark has passed it, in order of time, with its amount in euro cents. One partition, to
# keep that order.
EVALUATED = "payments-judged"
# Compacted: the state of each customer, and how far the evaluation is.
STATES = "fraud-states"
# How far the alerts on sequences have come.
SEQUENCE_STATES = "fraud-sequence-states"
