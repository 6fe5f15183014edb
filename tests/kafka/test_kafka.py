"""Topics, offsets and errors, against a real broker."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid

import pytest
from confluent_kafka import Producer

from tests.kafka.topics import topic_config
from tidemark.errors import KafkaError
from tidemark.kafka import client as kafka
from tidemark.local import broker as embedded
from tidemark.settings import Settings


@pytest.fixture
def topic() -> str:
    return f"kafka-{uuid.uuid4().hex[:12]}"


def test_a_topic_is_created_once_and_then_left_as_it_is(broker: Settings, topic: str) -> None:
    assert kafka.end_offsets(broker.kafka, topic) == {}
    kafka.ensure_topic(broker.kafka, topic, partitions=3, config={"retention.ms": "3600000"})
    kafka.ensure_topic(broker.kafka, topic, partitions=5)

    assert (
        kafka.end_offsets(broker.kafka, topic)
        == kafka.beginning_offsets(broker.kafka, topic)
        == {0: 0, 1: 0, 2: 0}
    )
    config = topic_config(broker.kafka, topic)
    assert config["retention.ms"] == "3600000"
    assert config["max.message.bytes"] == str(16 * 1024 * 1024)


def test_a_topic_keeps_its_records_for_ever_by_default(broker: Settings, topic: str) -> None:
    kafka.ensure_topic(broker.kafka, topic)
    assert topic_config(broker.kafka, topic)["retention.ms"] == "-1"
    assert len(kafka.end_offsets(broker.kafka, topic)) == broker.kafka.partitions


def test_end_offsets_ask_with_the_client_given(
    broker: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.ensure_topic(broker.kafka, topic, partitions=1)
    admin = kafka.admin_client(broker.kafka)
    items: list[Settings] = []
    monkeypatch.setattr(kafka, "admin_client", lambda settings: items.append(settings) or admin)

    assert kafka.end_offsets(broker.kafka, topic, admin=admin) == {0: 0}
    assert items == []
    assert kafka.end_offsets(broker.kafka, topic) == {0: 0}
    assert len(items) == 1


def test_end_offsets_stop_at_an_open_transaction(broker: Settings, topic: str) -> None:
    kafka.ensure_topic(broker.kafka, topic, partitions=1)
    producer = Producer({**kafka.client_config(broker.kafka), "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.flush()

    assert kafka.end_offsets(broker.kafka, topic) == {0: 0}
    assert kafka.end_offsets(broker.kafka, topic, committed=False) == {0: 1}
    producer.commit_transaction()
    # The broker writes the marker a moment after it has promised the commit.
    deadline = time.monotonic() + 10
    while kafka.end_offsets(broker.kafka, topic) == {0: 0} and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kafka.end_offsets(broker.kafka, topic) == {0: 2}  # The line and the commit marker.


def test_impossible_topics(broker: Settings, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_ELECTION_SECONDS", 0.5)
    with pytest.raises(KafkaError, match="topic_replication"):
        kafka.ensure_topic(broker.changed(topic_replication=3).kafka, topic)
    with pytest.raises(KafkaError, match="valid topic name"):
        kafka.ensure_topic(broker.kafka, "no/such name")


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (Settings.of(bootstrap_servers="127.0.0.1:1"), "--bootstrap-servers"),
        (Settings.of(broker_port=1), "tidemark broker start"),
    ],
)
def test_no_broker_is_one_clear_error(settings: Settings, remedy: str) -> None:
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1 cannot be reached") as raised:
        kafka.require_reachable(embedded.located(settings).kafka, timeout=1)
    assert remedy in str(raised.value)


def test_a_protocol_that_the_broker_does_not_speak(broker: Settings) -> None:
    with pytest.raises(KafkaError, match="kafka_security_protocol"):
        kafka.require_reachable(broker.changed(kafka_security_protocol="SSL").kafka, timeout=4)


def test_credentials_that_the_broker_does_not_take(broker: Settings) -> None:
    settings = broker.changed(
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism="PLAIN",
        kafka_username="someone",
        kafka_password="planted-secret",
    )
    with pytest.raises(KafkaError, match="credentials of user someone") as raised:
        kafka.require_reachable(settings.kafka, timeout=4)
    assert "planted" not in str(raised.value)


def test_a_broker_that_pauses_for_a_moment_is_asked_again(
    broker: Settings, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = embedded.status(broker.changed(bootstrap_servers=""))
    assert running is not None
    monkeypatch.setattr(kafka, "_TRY_SECONDS", 1.0)  # the pause is longer than a request may take
    goes_on = threading.Timer(2.5, os.kill, [running.pid, signal.SIGCONT])
    os.kill(running.pid, signal.SIGSTOP)
    goes_on.start()
    try:
        kafka.ensure_topic(broker.kafka, topic, partitions=2)
    finally:
        goes_on.join()
    assert kafka.end_offsets(broker.kafka, topic) == {0: 0, 1: 0}


def test_a_broker_that_is_gone_is_an_error_and_not_asked_for_ever(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_TRY_SECONDS", 0.2)
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1 cannot be reached"):
        kafka.ensure_topic(Settings.of(bootstrap_servers="127.0.0.1:1").kafka, topic)
