"""Eight sensors of a plant at 20 times its speed: values that drift, and sometimes jump."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from examples.kit.load import Event, Load, as_json, delayed, iso, spoiled
from examples.sensors.topics import READINGS

BEGIN = datetime(2026, 3, 2, 6, tzinfo=UTC).timestamp()
SPEED = 20
# A reading waits up to 40 seconds of the plant's time in its gateway: longer than the watermark does.
LATE_SECONDS = 2.0
BAD = 0.01
SENSORS = {
    "boiler": 82.0, "intake": 11.5, "outlet": 58.0, "bearing": 41.0, "oil": 63.0, "hall": 19.5, "cold-store": -18.0,
    "tank": 35.0,
}  # fmt: skip


def events(load: Load) -> Iterator[Event]:
    """The readings in the order of sending. Kafka's timestamp is the time of sending, by the plant's clock."""
    for event in delayed(_on_time(load), load, LATE_SECONDS):
        yield event._replace(timestamp=round((BEGIN + event.at * SPEED) * 1000))


def _on_time(load: Load) -> Iterator[Event]:
    chance = load.random("readings")
    values = dict(SENSORS)
    names = list(SENSORS)
    for number, at in enumerate(load.times()):
        sensor = names[number % len(names)]
        jump = chance.choice((-3.0, 3.0)) if chance.random() < 0.01 else 0.0
        # Pulled back to its usual value, so that it stays plausible for ever.
        pull = (SENSORS[sensor] - values[sensor]) * 0.02
        values[sensor] = round(values[sensor] + pull + jump + chance.gauss(0, 0.15), 2)
        reading = {"sensor": sensor, "value": values[sensor], "event_time": iso(BEGIN + at * SPEED)}
        value, reason = as_json(reading), ""
        if chance.random() < BAD:
            if chance.random() < 0.5:
                value, reason = as_json({**reading, "value": 999.9}), "plausible_value"
            else:
                value, reason = spoiled(reading, "event_time", chance)
                reason = f"{reason},plausible_value" if reason == "missing_value" else reason
        partition = names.index(sensor) % READINGS.partitions
        yield Event(at, READINGS.topic, value, sensor.encode(), partition, reason=reason)
