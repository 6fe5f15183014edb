"""The topics: what their records look like, and what makes one bad."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from examples.fraud_alerts.limits import LIMITS
from examples.fraud_alerts.money import MOST, RATES
from examples.kit.events import Events

# What is missing is told as missing, not as wrong, too.
_ON_EARTH = "coalesce(latitude, 0) BETWEEN -90 AND 90 AND coalesce(longitude, 0) BETWEEN -180 AND 180"
# A time ahead of Kafka's clock would move the watermark past honest events.
_NOT_AHEAD = f"time IS NULL OR time <= record.timestamp + INTERVAL {LIMITS.lateness_ms} MILLISECONDS"


def _within(name: str, limit: float) -> pc.Expression:
    return pc.field(name).is_null() | ((pc.field(name) >= -limit) & (pc.field(name) <= limit))


_ahead = pa.scalar(timedelta(milliseconds=LIMITS.lateness_ms), pa.duration("us"))
_PLACE_AND_TIME = {
    "place_not_on_earth": _within("latitude", 90.0) & _within("longitude", 180.0),
    "time_ahead": pc.field("time").is_null()
    | (pc.field("time") <= pc.add(pc.field("record_timestamp"), _ahead)),
}

# Keyed by customer: the order in a customer's partition is the order of that customer's payments.
TRANSACTIONS = Events(
    topic="transactions",
    schema="id string, customer string, amount long, currency string, merchant string, country string,"
    " latitude double, longitude double, time timestamp",
    rules={
        "amount_not_positive": "amount IS NULL OR amount > 0",
        # In any currency within what a long can hold while it is converted.
        "amount_too_large": f"amount IS NULL OR amount <= {MOST}",
        "unknown_currency": f"currency IS NULL OR currency IN {tuple(RATES)}",
        "place_not_on_earth": _ON_EARTH,
        "time_ahead": _NOT_AHEAD,
    },
    vectorized={
        "amount_not_positive": pc.field("amount").is_null() | (pc.field("amount") > 0),
        "amount_too_large": pc.field("amount").is_null() | (pc.field("amount") <= MOST),
        "unknown_currency": pc.field("currency").is_null() | pc.field("currency").isin(list(RATES)),
        **_PLACE_AND_TIME,
    },
)

# Keyed by customer, too.
DEVICES = Events(
    topic="devices",
    schema="customer string, latitude double, longitude double, time timestamp",
    rules={"place_not_on_earth": _ON_EARTH, "time_ahead": _NOT_AHEAD},
    vectorized=_PLACE_AND_TIME,
)

# Alerts, keyed by transaction: JSON objects with transaction, customer, rule, status, reason, decided_at, …
ALERTS = "alerts"
# What is read of them: the provisional ones are claims, to be confirmed or withdrawn.
CLAIMS = Events(
    ALERTS, "transaction string, customer string, rule string, status string, time long", vectorized={}
)
# Each payment once when the watermark has passed it, in order of time, with its amount in euro cents. One partition, to
# keep that order.
JUDGED = "payments-judged"
# Compacted: the state of each customer, and how far the judge has come.
STATES = "fraud-states"
# How far the alerts on sequences have come.
SEQUENCE_STATES = "fraud-sequence-states"
