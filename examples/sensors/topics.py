"""What the sensors send."""

from __future__ import annotations

from examples.kit.events import Events

READINGS = Events(
    "readings",
    "sensor string, value double, event_time timestamp",
    rules={"plausible_value": "value BETWEEN -60 AND 120"},
)
