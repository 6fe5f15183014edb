"""The demo's week in a real Kafka: once per topic, whatever happens while it is loaded."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests import processes
from tests.pipeline.harness import produce
from tidemark.cli.week import RECORD, Sent, load_week
from tidemark.kafka import client as kafka
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings
from tidemark.traffic.week import week_blocks

LINES = 3_000
LOADING = (
    "from tidemark.cli.week import load_week; from tidemark.settings import load; load_week(load().kafka)"
)


@pytest.fixture
def topic(broker: Settings, tmp_path: Path) -> Settings:
    settings = broker.changed(home=tmp_path / "home", topic=f"week-{uuid4().hex[:8]}")
    prepare_home(settings)
    return settings


def committed(settings: Settings) -> list[bytes]:
    """The lines that a reader of committed records sees, by partition and offset."""
    ends = kafka.end_offsets(settings.kafka, settings.kafka.topic)
    config = {"group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**kafka.client_config(settings.kafka), **config})
    consumer.assign([TopicPartition(settings.kafka.topic, partition, 0) for partition in ends])
    result, ended = [], 0
    while ended < len(ends):
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
        else:
            result.append(message.value() or b"")
    consumer.close()
    return result


def end(settings: Settings, **how: Any) -> int:
    return sum(kafka.end_offsets(settings.kafka, settings.kafka.topic, **how).values())


def test_a_topic_gets_the_week_once(topic: Settings) -> None:
    week = load_week(topic.kafka, lines=LINES)
    assert week is not None
    expected = sorted(line for block in week_blocks(week) for line in block.lines)
    assert sorted(committed(topic)) == expected
    assert load_week(topic.kafka, lines=LINES) is None
    assert sorted(committed(topic)) == expected


def test_its_partitions_are_at_the_same_time_of_the_week(topic: Settings) -> None:
    assert load_week(topic.kafka, lines=LINES)
    ends = list(kafka.end_offsets(topic.kafka, topic.kafka.topic).values())
    assert len(ends) == 2
    assert abs(ends[0] - ends[1]) <= 1


def test_a_load_that_is_killed_leaves_no_line_and_is_repeated(topic: Settings) -> None:
    struck = False
    for attempt in range(5):
        settings = topic.changed(topic=f"{topic.kafka.topic}-{attempt}")
        admin = kafka.admin_client(settings.kafka)
        environment = {**os.environ, **settings.environment()}
        loading = processes.Popen([sys.executable, "-c", LOADING], env=environment)

        while not end(settings, committed=False, admin=admin) and loading.poll() is None:
            time.sleep(0.01)
        loading.kill()
        loading.wait()
        struck = end(settings, committed=False) > 0 and not end(settings)
        if struck:
            break
    assert struck, "no kill was in the middle of the transaction"
    week = load_week(settings.kafka, lines=LINES)
    assert week is not None
    assert sorted(committed(settings)) == sorted(line for block in week_blocks(week) for line in block.lines)
    assert load_week(settings.kafka, lines=LINES) is None


def test_a_topic_with_lines_gets_no_week(topic: Settings) -> None:
    kafka.ensure_topic(topic.kafka, topic.kafka.topic)
    produce(topic, [("default", b"mine")])
    assert load_week(topic.kafka, lines=LINES) is None
    assert committed(topic) == [b"mine"]


def test_what_was_sent_is_recorded_with_its_offsets(topic: Settings) -> None:
    kafka.ensure_topic(topic.kafka, topic.kafka.topic)
    sent = Sent(topic)
    sent.load_week(sent.tally.extend, lambda: False)
    record = json.loads((topic.run_directory / RECORD).read_text())
    assert set(record["from"].values()) == {0}
    # Each partition has a mark of the transaction's end, too.
    assert sum(record["to"].values()) == record["accepted"] + 2 == sent.tally.accepted + 2
    assert record["rejected"] == 0 < record["pageviews"] < record["accepted"]
