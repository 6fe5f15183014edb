"""Generated input of a job: events in a seeded, reproducible order, sent to Kafka on schedule."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from random import Random
from threading import Event as Flag
from typing import Any, NamedTuple

from examples.kit.events import MISSING, NOT_JSON, WRONG_TYPE
from tidemark.kafka.sending import Sender
from tidemark.settings.sections import KafkaSettings

_TICK = 0.005  # seconds; events due within one are sent together
_READY_SECONDS = 0.05


@dataclass(frozen=True)
class Load:
    """The amount of input. The same values give the same events. `rate` is events per second, `seconds` the duration
    (None: no end), `late` the share that arrives out of order."""

    seed: int = 0
    rate: float = 200.0
    seconds: float | None = None
    late: float = 0.2

    def random(self, purpose: str) -> Random:
        """A separate random generator per purpose, so that a draw for one does not change another."""
        return Random(f"{self.seed}/{purpose}")

    def times(self) -> Iterator[float]:
        """Due times of events, in seconds from the start, evenly spaced."""
        numbers = count() if self.seconds is None else range(round(self.rate * self.seconds))
        return (number / self.rate for number in numbers)


class Event(NamedTuple):
    """A record that is sent `at` seconds after the start. A negative one is history, which is sent before.

    `partition` -1 leaves it to the key; `timestamp` (epoch milliseconds) 0 takes the time of sending.
    With a `reason` it is invalid and must become a dead letter for that reason.
    """

    at: float
    topic: str
    value: bytes
    key: bytes | None = None
    partition: int = -1
    timestamp: int = 0
    reason: str = ""


def delayed(events: Iterable[Event], load: Load, by: float) -> Iterator[Event]:
    """The events in order of sending: the load's late share is sent up to `by` seconds after `at`."""
    chance = load.random("late")
    waiting: list[tuple[float, int, Event]] = []
    for number, event in enumerate(events):
        while waiting and waiting[0][0] <= event.at:
            yield heapq.heappop(waiting)[2]
        if chance.random() < load.late:
            late = event._replace(at=event.at + chance.uniform(0, by))
            heapq.heappush(waiting, (late.at, number, late))
        else:
            yield event
    while waiting:
        yield heapq.heappop(waiting)[2]


def as_json(fields: Mapping[str, Any]) -> bytes:
    """An event's value."""
    return json.dumps(fields, separators=(",", ":")).encode()


def iso(seconds: float) -> str:
    """Epoch seconds as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(round(seconds, 3), UTC).isoformat(timespec="milliseconds")


def spoiled(fields: Mapping[str, Any], typed: str, chance: Random) -> tuple[bytes, str]:
    """An invalid form of an event, and the reason: truncated, without a field, or with a wrong type
    in `typed`, a required field that is not a string."""
    how = chance.randrange(3)
    if how == 0:
        whole = as_json(fields)
        return whole[: chance.randrange(1, len(whole))], NOT_JSON
    if how == 1:
        gone = chance.choice(sorted(fields))
        return as_json({name: value for name, value in fields.items() if name != gone}), MISSING + gone
    return as_json({**fields, typed: {"no": "such"}}), WRONG_TYPE


def send(
    events: Iterable[Event], settings: KafkaSettings, stop: Flag, ready: Callable[[], bool] = lambda: True
) -> int:
    """Sends history at once, waits for `ready`, and then sends events when they are due, as an open loop: overdue
    events follow at once. Events of one partition arrive in this order, each once. Ends when `stop` is set; returns
    the number of sent events when all are acknowledged. Raises KafkaError."""
    sender = Sender(settings, "events")
    started: float | None = None
    sent = 0
    for event in events:
        if started is None and event.at >= 0:
            while not (ready() or stop.wait(_READY_SECONDS)):
                sender.poll()
            started = time.monotonic()
        ahead = 0.0 if started is None else event.at - (time.monotonic() - started)
        if ahead > 0:
            sender.poll()
            stop.wait(max(ahead, _TICK))
        if stop.is_set():
            break
        at = event.timestamp or int(time.time() * 1000)
        sender.send(event.topic, event.value, key=event.key, partition=event.partition, timestamp=at)
        sent += 1
    sender.close()
    return sent
