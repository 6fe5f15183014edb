"""Deletes the records of the topic that are in bronze."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tidemark.errors import KafkaError
from tidemark.home import REQUESTS, Home
from tidemark.kafka import erasure
from tidemark.local import broker
from tidemark.settings import Settings
from tidemark.stream.lag import committed_offset

log = logging.getLogger("tidemark.operate.topic_erasure")


def in_bronze(home: Home) -> dict[int, int]:
    """By partition, the offset before which all records are in bronze."""
    checkpoint = home.checkpoint(REQUESTS)
    try:
        ends = committed_offset(checkpoint).get(home.settings.kafka.topic, {})
    except (OSError, ValueError):
        return {}
    return {int(partition): int(end) for partition, end in ends.items()}


def erase_records(home: Home, ends: Mapping[int, int] | None = None, *, segments: bool = True) -> int | None:
    """Deletes the records of all partitions that are in bronze, or those before `ends`, and returns the number of
    offsets that are gone; None if Kafka could not delete them. An embedded broker that does not run is started for
    it. `segments`: waits until it has deleted their files."""
    wanted = in_bronze(home) if ends is None else ends
    if not wanted:
        return 0
    try:
        with _reachable(home.settings) as settings:
            gone = erasure.erase(settings.kafka, wanted, segments=segments)
            if segments and settings.kafka.uses_embedded_broker:
                directories = sorted(home.settings.home.glob("broker*/data"))
                if not erasure.await_deleted(directories, wanted, settings.kafka.topic):
                    log.warning("the broker has not deleted the files of all deleted records yet")
            return gone
    except KafkaError as error:
        log.warning("records stay in Kafka: %s", error)
        return None


@contextmanager
def _reachable(settings: Settings) -> Iterator[Settings]:
    """The settings with the address of a Kafka that runs."""
    if not settings.kafka.uses_embedded_broker or broker.status(settings):
        yield broker.located(settings)
        return
    with broker.running(settings) as there:
        yield replace(there, kafka=replace(there.kafka, located=True))
