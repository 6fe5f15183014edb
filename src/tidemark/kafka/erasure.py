"""Deletes the records of a topic that are in the tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tidemark.kafka import client as kafka
from tidemark.local.process import wait_until
from tidemark.settings.sections import KafkaSettings

_SECONDS = 30.0
_POLL_SECONDS = 0.2
# A segment that is not the newest one is deleted as soon as all of its records are.
_SEGMENT_AGE = "segment.ms"


def erase(settings: KafkaSettings, ends: Mapping[int, int], *, segments: bool = True) -> int:
    """Deletes the records before the offset `ends` of each partition. Returns the number of offsets that are gone.

    The embedded broker also begins new `segments`, so that it can delete the files of the old ones; other clusters
    delete these at times of their own. Raises KafkaError.
    """
    topic = settings.topic
    begins, known = kafka.beginning_offsets(settings, topic), kafka.end_offsets(settings, topic)
    wanted = {
        p: min(end, known[p]) for p, end in ends.items() if p in known and begins[p] < min(end, known[p])
    }
    if not wanted:
        return 0
    admin = kafka.admin_client(settings)
    try:
        # The offset of the topic's end means all records until then.
        requests = admin.delete_records([TopicPartition(topic, p, end) for p, end in wanted.items()])
        for request in requests.values():
            request.result(_SECONDS)
        if segments and settings.uses_embedded_broker:
            _begin_segments(settings, sorted(wanted))
    except KafkaException as error:
        raise kafka.kafka_error(settings, error.args[0]) from error
    return sum(end - begins[p] for p, end in wanted.items())


def await_deleted(
    directories: list[Path], ends: Mapping[int, int], topic: str, seconds: float = _SECONDS
) -> bool:
    """Waits until a broker with these directories has no segment of the topic that begins before the offset `ends` of
    its partition. False if some are left after `seconds`."""

    def deleted() -> bool:
        return not any(
            path.name.endswith(".deleted") or int(path.stem) < end
            for directory in directories
            for partition, end in ends.items()
            for path in directory.glob(f"{topic}-{partition}/*.log*")
        )

    return wait_until(deleted, seconds, _POLL_SECONDS)


def _begin_segments(settings: KafkaSettings, partitions: list[int]) -> None:
    """Has the broker begin a segment in each partition, by a record of a transaction that is aborted: nobody reads
    it."""
    _alter(settings, ConfigEntry(_SEGMENT_AGE, "1", incremental_operation=AlterConfigOpType.SET))
    try:
        producer = Producer(
            {**kafka.client_config(settings), "transactional.id": f"tidemark-erase-{settings.topic}"}
        )
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        for partition in partitions:
            producer.produce(settings.topic, b"", partition=partition)
        producer.flush(_SECONDS)
        producer.abort_transaction(_SECONDS)
    finally:
        _alter(settings, ConfigEntry(_SEGMENT_AGE, "", incremental_operation=AlterConfigOpType.DELETE))


def _alter(settings: KafkaSettings, entry: ConfigEntry) -> None:
    resource = ConfigResource(ResourceType.TOPIC, settings.topic, incremental_configs=[entry])
    admin = kafka.admin_client(settings)  # its requests end with it
    for request in admin.incremental_alter_configs([resource]).values():
        request.result(_SECONDS)
