"""Three nodes of the embedded broker: one may be killed under load, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, TopicMetadata
from pyspark.sql import SparkSession

from tests.kafka.topics import topic_config
from tests.pipeline.harness import assert_equal, run_here
from tests.pipeline.recount import recount
from tidemark.errors import PlatformError
from tidemark.kafka import client as kafka
from tidemark.local import broker
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

pytestmark = pytest.mark.cluster


@pytest.fixture
def three(home: Settings) -> Iterator[Settings]:
    """Settings of a home whose broker has three nodes, with the topic on all of them."""
    settings = home.changed(
        broker_nodes=3, topic_partitions=3, quality_interval_seconds=0.0, maintain_interval_seconds=0.0
    )
    broker.start(settings)
    settings = broker.located(settings)
    try:
        kafka.ensure_topic(settings.kafka, settings.kafka.topic)
        yield settings
    finally:
        broker.stop(settings)


def described(settings: Settings) -> TopicMetadata:
    admin = AdminClient({"bootstrap.servers": settings.kafka.bootstrap_servers})
    return admin.list_topics(settings.kafka.topic, timeout=10).topics[settings.kafka.topic]


def send(settings: Settings, lines: Sequence[bytes], halfway: Callable[[], None]) -> None:
    """Sends lines as a careful shipper does; half of them are acknowledged when `halfway` is called, and others
    are on their way."""
    faults: list[object] = []
    acknowledged = 0

    def delivered(fault: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if fault:
            faults.append(fault)

    producer = Producer(
        {
            **kafka.client_config(settings.kafka),
            "enable.idempotence": True,
            "linger.ms": 5,
            "on_delivery": delivered,
        }
    )
    done = False
    for number, line in enumerate(lines):
        producer.produce(settings.kafka.topic, line, partition=(number // 100) % settings.kafka.partitions)
        producer.poll(0)
        if not done and acknowledged > len(lines) // 2:
            done = True
            halfway()
        elif not done and number > len(lines) * 3 // 4:
            producer.poll(0.01)
    assert producer.flush(60) == 0 and faults == [] and done


def test_one_of_three_brokers_killed_under_load(three: Settings, spark: SparkSession) -> None:
    traffic = Traffic(start=1_780_000_200, rate=100, seconds=200, seed=9, visitors=300, late=0.1)
    lines = [line for block in blocks(traffic, truth=False) for line in block.lines]
    partitions = described(three).partitions
    assert all(len(partition.replicas) == len(partition.isrs) == 3 for partition in partitions.values())
    assert topic_config(three.kafka, three.kafka.topic)["min.insync.replicas"] == "2"
    nodes = broker.status(three)
    assert nodes is not None and len(nodes.pids) == 3
    leader = partitions[0].leader

    send(three, lines, halfway=lambda: os.kill(nodes.pids[leader - 1], signal.SIGKILL))

    left = broker.status(three)
    assert left is not None and left.pids == tuple(p for p in nodes.pids if p != nodes.pids[leader - 1])
    assert described(three).partitions[0].leader not in (leader, -1)
    run_here(spark, three)
    assert_equal(three, recount([("default", line) for line in lines]))

    again = broker.start(three)
    assert len(again.pids) == 3
    assert wait_until(
        lambda: all(len(partition.isrs) == 3 for partition in described(three).partitions.values()), 60
    ), "the node that came back did not catch up"


def test_a_home_keeps_its_number_of_nodes(three: Settings) -> None:
    broker.stop(three)
    with pytest.raises(PlatformError, match=r"made with 3 nodes, not 1.*TIDEMARK_BROKER_NODES=3"):
        broker.start(three.changed(broker_nodes=1))
