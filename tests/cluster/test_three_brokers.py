"""Three nodes of the embedded broker: one may be killed under load, and nothing is lost."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, TopicMetadata
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, run_here
from tests.pipeline.recount import recount
from tidemark import kafka
from tidemark.errors import PlatformError
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks

pytestmark = pytest.mark.cluster


@pytest.fixture
def three(home: Settings) -> Iterator[Settings]:
    """Settings of a home whose broker has three nodes, with the topic on all of them."""
    settings = dataclasses.replace(
        home, broker_nodes=3, topic_partitions=3, quality_interval_seconds=0.0, maintain_interval_seconds=0.0
    )
    broker.start(settings)
    try:
        kafka.ensure_topic(settings, settings.topic)
        yield settings
    finally:
        broker.stop(settings)


def described(settings: Settings) -> TopicMetadata:
    admin = AdminClient({"bootstrap.servers": kafka.servers(settings)})
    return admin.list_topics(settings.topic, timeout=10).topics[settings.topic]


def test_one_of_three_brokers_killed_under_load(three: Settings, spark: SparkSession, tmp_path: Path) -> None:
    made = Traffic(start=1_780_000_200, rate=100, seconds=400, seed=9, visitors=300, late=0.1)
    lines = [line for block in blocks(made, truth=False) for line in block.lines]
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(line + b"\n" for line in lines))
    partitions = described(three).partitions
    assert all(len(partition.replicas) == len(partition.isrs) == 3 for partition in partitions.values())
    assert kafka.topic_config(three, three.topic)["min.insync.replicas"] == "2"
    nodes = broker.status(three)
    assert nodes is not None and len(nodes.pids) == 3
    victim = nodes.pids[partitions[0].leader - 1]

    def kill_the_leader(_: int) -> None:
        if any(kafka.end_offsets(three, three.topic, committed=False).values()):
            with_leader = broker.status(three)
            if with_leader and victim in with_leader.pids:
                os.kill(victim, signal.SIGKILL)

    report = import_files([str(log)], Options(three, say=lambda _: None, advance=kill_the_leader))
    left = broker.status(three)
    assert left is not None and len(left.pids) == 2 and victim not in left.pids
    assert report.added == len(lines)
    assert import_files([str(log)], Options(three, say=lambda _: None)).added == 0
    assert described(three).partitions[0].leader != partitions[0].leader

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
        broker.start(dataclasses.replace(three, broker_nodes=1))
