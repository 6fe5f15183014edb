"""What can happen to the topic: retention, growth, deletion, another one of the same name."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from tests.pipeline.harness import assert_equal, fresh, produce, run_process
from tests.pipeline.recount import recount
from tests.recovery.killing import Pair, await_running, kill, traffic
from tidemark.errors import KafkaError
from tidemark.kafka import client as kafka
from tidemark.local.process import wait_until
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return traffic(seed=51, lines=1_500)


@pytest.fixture
def settings(broker: Settings, spark: SparkSession, tmp_path: Path, pairs: list[Pair]) -> Settings:
    """A home that has read the first third."""
    settings = fresh(broker, tmp_path, topic_partitions=1)
    produce(settings, pairs[:500])
    run_pipeline(settings, once=True)
    return settings


def ask(settings: Settings, request: Callable[[AdminClient], dict[Any, Future[Any]]]) -> None:
    """Sends a request to the cluster and waits for it."""
    client = AdminClient(kafka.client_config(settings.kafka))
    for answer in request(client).values():
        answer.result(20)


def delete_topic(settings: Settings) -> None:
    ask(settings, lambda client: client.delete_topics([settings.kafka.topic]))
    assert wait_until(lambda: kafka.topic_id(settings.kafka, settings.kafka.topic) is None, 60)


def test_retention_that_removed_unread_lines(settings: Settings, pairs: list[Pair]) -> None:
    produce(settings, pairs[500:1_000])
    ask(settings, lambda client: client.delete_records([TopicPartition(settings.kafka.topic, 0, 700)]))
    for _ in range(2):  # the second time there is a batch that was planned and never ran
        with pytest.raises(KafkaError, match="no longer has lines that were not read") as raised:
            run_pipeline(settings, once=True)
        assert "TIDEMARK_ALLOW_DATA_LOSS" in raised.value.remedy
    assert_equal(settings, recount(pairs[:500]))
    produce(settings, pairs[1_000:])
    run_pipeline(settings.changed(allow_data_loss=True), once=True)
    assert_equal(settings, recount(pairs[:500] + pairs[700:]))


def test_topic_grown_by_partitions(settings: Settings, pairs: list[Pair]) -> None:
    ask(settings, lambda client: client.create_partitions([NewPartitions(settings.kafka.topic, 3)]))
    assert wait_until(lambda: len(kafka.end_offsets(settings.kafka, settings.kafka.topic)) == 3, 60)
    produce(settings.changed(topic_partitions=3), pairs[500:])
    run_pipeline(settings, once=True)
    assert_equal(settings, recount(pairs))


def test_topic_deleted_and_what_one_can_do(settings: Settings, pairs: list[Pair]) -> None:
    delete_topic(settings)
    with pytest.raises(KafkaError, match="does not exist any more") as raised:
        run_pipeline(settings, once=True)
    assert "TIDEMARK_TOPIC" in raised.value.remedy
    other = settings.changed(topic=f"log-{uuid.uuid4().hex[:8]}", allow_data_loss=True)
    kafka.ensure_topic(other.kafka, other.kafka.topic)
    produce(other, pairs[500:])
    run_pipeline(other, once=True)
    run_pipeline(other.changed(allow_data_loss=False), once=True)
    assert_equal(settings, recount(pairs))


def test_topic_deleted_and_created_again(settings: Settings, pairs: list[Pair]) -> None:
    """The new topic is longer than what was read of the old one: its first lines would be skipped."""
    delete_topic(settings)
    kafka.ensure_topic(settings.kafka, settings.kafka.topic)
    produce(settings, pairs[500:])
    with pytest.raises(KafkaError, match="was deleted and created anew") as raised:
        run_pipeline(settings, once=True)
    assert "TIDEMARK_TOPIC" in raised.value.remedy
    assert_equal(settings, recount(pairs[:500]))


@pytest.mark.slow
def test_beside_a_running_pipeline(settings: Settings, pairs: list[Pair]) -> None:
    """A second pipeline is turned away; new partitions are read; a topic that vanishes is one clear error."""
    process = run_process(settings, once=False)
    try:
        await_running(settings, process)
        second = run_process(settings)
        output, _ = second.communicate(timeout=60)
        assert second.returncode == 1 and "another pipeline is running" in output and "--home" in output
        ask(settings, lambda client: client.create_partitions([NewPartitions(settings.kafka.topic, 2)]))
        assert wait_until(lambda: len(kafka.end_offsets(settings.kafka, settings.kafka.topic)) == 2, 60)
        produce(settings.changed(topic_partitions=2), pairs[500:])
        deadline = time.monotonic() + 60
        while True:
            try:
                assert_equal(settings, recount(pairs))
                break
            except AssertionError:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(1)
        delete_topic(settings)
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 1 and "Traceback" not in output, output
        assert "does not exist any more" in output or "no longer has lines" in output, output
    except subprocess.TimeoutExpired:
        pytest.fail("the pipeline goes on without its topic")
    finally:
        if process.poll() is None:
            kill(process)
    assert_equal(settings, recount(pairs))
