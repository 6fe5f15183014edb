"""Made input: reproducible, out of order by the asked share, bad events for known reasons."""

from __future__ import annotations

import threading
from collections import Counter
from uuid import uuid4

import pytest

from examples.kit.load import Event, Load, as_json, delayed, iso, send, spoiled
from examples.kit.results import Results
from tidemark.kafka import client as kafka
from tidemark.settings import Settings


def numbered(load: Load) -> list[Event]:
    return [Event(at, "t", str(n).encode()) for n, at in enumerate(load.times())]


def test_events_are_due_evenly() -> None:
    assert list(Load(rate=4, seconds=1).times()) == [0, 0.25, 0.5, 0.75]


def test_the_same_load_makes_the_same_order() -> None:
    load = Load(seed=3, rate=100, seconds=10, late=0.3)
    assert list(delayed(numbered(load), load, 2)) == list(delayed(numbered(load), load, 2))
    other = Load(seed=4, rate=100, seconds=10, late=0.3)
    assert list(delayed(numbered(load), load, 2)) != list(delayed(numbered(other), other, 2))


def test_the_late_share_comes_late_and_all_come_once() -> None:
    load = Load(rate=100, seconds=20, late=0.2)
    events = numbered(load)
    sent = list(delayed(events, load, by=3))
    assert Counter(e.value for e in sent) == Counter(e.value for e in events)
    assert [e.at for e in sent] == sorted(e.at for e in sent)
    due = {e.value: e.at for e in events}
    late = [e.at - due[e.value] for e in sent if e.at > due[e.value]]
    assert 300 < len(late) < 500
    assert max(late) <= 3


def test_without_late_ones_nothing_moves() -> None:
    load = Load(rate=100, seconds=2, late=0)
    assert list(delayed(numbered(load), load, 5)) == numbered(load)


def test_an_endless_load_can_be_read_bit_by_bit() -> None:
    load = Load(rate=10)
    generated = delayed((Event(at, "t", b"") for at in load.times()), load, 5)
    assert [next(generated).at for _ in range(100)][-1] > 5


def test_times_are_iso_to_the_millisecond() -> None:
    assert iso(1_779_000_000.1234) == "2026-05-17T06:40:00.123+00:00"


def test_every_way_to_spoil_an_event_occurs() -> None:
    chance = Load().random("spoiled")
    items = [spoiled({"id": "a", "amount": 1.5}, "amount", chance) for _ in range(200)]
    assert {reason for _, reason in items} == {"not_json", "wrong_type", "missing_id", "missing_amount"}
    assert as_json({"id": "a", "amount": 1.5}) not in {value for value, _ in items}


def test_events_arrive_in_order_with_the_timestamps_given(broker: Settings) -> None:
    topic = f"load-{uuid4()}"
    kafka.ensure_topic(broker.kafka, topic, partitions=2)
    events = [
        Event(n / 100, topic, str(n).encode(), key=b"k", partition=n % 2, timestamp=1_000 * n + 1)
        for n in range(20)
    ]
    assert send(events, broker.kafka, threading.Event()) == 20
    result = Results(broker).messages(topic)
    assert [(m.partition, m.value) for m in result] == [
        (p, str(n).encode()) for p in (0, 1) for n in range(p, 20, 2)
    ]
    assert result[1].timestamp.timestamp() == 2.001


def test_history_is_sent_before_the_job_is_ready_and_the_rest_afterwards(broker: Settings) -> None:
    topic = f"load-{uuid4()}"
    kafka.ensure_topic(broker.kafka, topic)
    events = [Event(at, topic, str(at).encode()) for at in (-7200.0, -1.0, 0.0, 0.2)]
    arrivals: list[int] = []

    def ready() -> bool:
        arrived = sum(kafka.end_offsets(broker.kafka, topic).values())
        arrivals.append(arrived)
        return arrived == 2 and len(arrivals) > 3

    assert send(events, broker.kafka, threading.Event(), ready) == 4
    assert max(arrivals) == 2
    assert sorted(message.value for message in Results(broker).messages(topic)) == sorted(
        e.value for e in events
    )


@pytest.mark.parametrize("sent", [0, 3])
def test_sending_ends_when_stopped(broker: Settings, sent: int) -> None:
    topic = f"load-{uuid4()}"
    kafka.ensure_topic(broker.kafka, topic)
    stop = threading.Event()

    def events():  # type: ignore[no-untyped-def]
        for number in range(1000):
            if number == sent:
                stop.set()
            yield Event(0, topic, b"x")

    assert send(events(), broker.kafka, stop) == sent
