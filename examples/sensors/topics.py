"""The topic of the sensors' readings."""

from __future__ import annotations

from examples.kit.events import Events
from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule

READINGS = Events(
    "readings",
    "sensor string, value double, event_time timestamp",
    rules=(
        RejectingRule(
            "plausible_value",
            column("value").between(-60, 120),
            "value",
            "The value is one of the air outside.",
        ),
    ),
)
