"""Exactly-once results in Kafka together with their state: one transaction per micro-batch.

Spark's own Kafka sink may write a record twice after a crash. Here a batch's records, the changed states of
its keys and the batch number go to Kafka in one transaction. After a kill at any moment, the next start
reads the states of the last committed batch and its number. If Spark runs a committed batch
again, it is skipped. Readers with `isolation.level=read_committed` see each
record once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tidemark.contract.store import Commit
from tidemark.errors import KafkaError, TableError
from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings

# States are kept by key: Kafka may delete older ones.
STATES_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(32 << 20),
    "min.cleanable.dirty.ratio": "0.3",
}
_PROGRESS = b"\x00progress"
_SECONDS = 60.0


class Record(NamedTuple):
    """A record to write, with its headers."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Transactions:
    """Writes the batches of one query, of which only one instance may run: a new one fences an older one.

    `topic` is the query's compacted topic of states (created if missing). `states` has them by
    key as of the last committed batch, `facts` those passed to `commit` with that batch.
    Raises KafkaError.
    """

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        kafka.ensure_topic(settings, topic, partitions=1, config=STATES_CONFIG)
        self._producer = Producer(
            {
                **kafka.client_config(settings),
                "transactional.id": topic,
                "transaction.timeout.ms": int(_SECONDS * 1000),
                "linger.ms": 1,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        # Ends the open transaction of a killed process, so that all committed records can be read now.
        self._call(self._producer.init_transactions, _SECONDS)
        self.states = _read(settings, topic)
        progress = json.loads(self.states.pop(_PROGRESS, b"{}"))
        self._writer: str = progress.get("writer", "")
        self._number: int = progress.get("number", -1)
        self.facts: Mapping[str, Any] = progress.get("facts", {})

    def done(self, commit: Commit) -> bool:
        """Whether this batch has been committed before. Raises TableError if the states belong to another
        checkpoint, whose batch numbers differ."""
        if self._writer and commit.writer != self._writer:
            raise TableError(
                f"the states in topic {self._topic!r} belong to another checkpoint",
                "Delete that topic together with the checkpoint, or start a new home.",
            )
        return commit.number <= self._number

    def commit(
        self,
        commit: Commit,
        records: Iterable[Record],
        states: Mapping[bytes, bytes] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a batch's records, the changed states and the facts for the next start atomically.
        If this fails the process must end, because its memory has uncommitted changes."""
        progress = {"writer": commit.writer, "number": commit.number, "facts": facts or {}}
        self._call(self._producer.begin_transaction)
        for record in records:
            self._produce(record)
        for key, value in (states or {}).items():
            self._produce(Record(self._topic, key, value))
        self._produce(Record(self._topic, _PROGRESS, json.dumps(progress).encode()))
        self._call(self._producer.commit_transaction, _SECONDS)
        self._writer, self._number = commit.writer, commit.number

    def _produce(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(record.topic, record.value, record.key, headers=list(record.headers))
                return
            except BufferError:
                self._call(self._producer.poll, 0.05)
            except KafkaException as error:
                raise kafka.kafka_error(self._settings, error.args[0]) from error

    def _call(self, act: Any, *arguments: float) -> None:
        """Calls again after a retriable error, for example while Kafka ends a killed process's transaction."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                act(*arguments)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise kafka.kafka_error(self._settings, error.args[0]) from error
                time.sleep(0.1)


def _read(settings: KafkaSettings, topic: str) -> dict[bytes, bytes]:
    """The newest committed value of each key."""
    begin, end = kafka.beginning_offsets(settings, topic), kafka.end_offsets(settings, topic)
    records: dict[bytes, bytes] = {}
    if begin == end:
        return records
    consumer = Consumer(
        {
            **kafka.client_config(settings),
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in begin.items()])
        deadline = time.monotonic() + _SECONDS
        while any(
            place.offset < end[place.partition]
            for place in consumer.position([TopicPartition(topic, partition) for partition in end])
        ):
            for message in consumer.consume(10_000, 0.1):
                fault, key, value = message.error(), message.key(), message.value()
                if fault is not None:
                    raise kafka.kafka_error(settings, fault)
                if key is not None and value is not None:
                    records[key] = value
            if time.monotonic() > deadline:
                raise KafkaError(f"topic {topic!r} cannot be read to its end", "Look at the broker's log.")
    finally:
        consumer.close()
    return records
