"""The records of a small batch, read by a client in this process: Spark's job takes longer than the rest of its work.

Spark still decides which offsets belong to a batch, and reads what is unusual.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidemark.kafka import client as kafka
from tidemark.kafka.messages import is_end, records
from tidemark.settings.sections import KafkaSettings

# Offsets from the first to before the last, by partition.
Ranges = Mapping[int, tuple[int, int]]

_MOST_BYTES = 32 << 20
# Options of a consumer that reads ranges of offsets, in the driver or in executors.
RANGE_OPTIONS: Mapping[str, Any] = {
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": _MOST_BYTES >> 10,
    "fetch.queue.backoff.ms": 10,
    # The client starts at another offset only after the broker has answered its last request.
    "fetch.wait.max.ms": 100,
}
_PATIENCE_SECONDS = 1.0
# Seconds for which Spark reads all batches after a failure, such as a header that is no text.
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 10.0, 600.0
log = logging.getLogger("tidemark.stream")


class Pause:
    """Time in which Spark reads, after a client has failed. Each further failure doubles it."""

    def __init__(self) -> None:
        self._until = 0.0
        self._seconds = _PAUSE_SECONDS

    @property
    def lasts(self) -> bool:
        """Whether Spark reads."""
        return time.monotonic() < self._until

    def begin(self) -> None:
        """After a failure."""
        self._until = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, _MOST_PAUSE_SECONDS)

    def end(self) -> None:
        """After a success: the next pause is short again."""
        self._seconds = _PAUSE_SECONDS


class DirectRecords:
    """Reads successive ranges of a topic. Records that arrive meanwhile are kept for the next range."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._consumer: Consumer | None = None
        self._positions: dict[int, int] = {}
        # The offset up to which everything has been received.
        self._reached: dict[int, int] = {}
        self._waiting: dict[int, deque[Message]] = {}
        self._pause = Pause()

    def read(self, ranges: Ranges) -> pa.Table | None:
        """The records of these ranges (`tidemark.kafka.messages.records`). None if Spark has to read them, because they
        are long, unusual or not there, or the cluster does not answer in time."""
        if self._pause.lasts:
            return None
        try:
            rows = records(self._settings.topic, self._messages(ranges))
            self._pause.end()
            return rows
        except (KafkaException, ValueError) as error:
            log.debug("Spark reads the next batches: %s", error)
            self._pause.begin()
            self._release()
            return None

    def _messages(self, ranges: Ranges) -> list[Message]:
        """All messages of the ranges. Raises KafkaException; ValueError if they do not arrive in time."""
        if any(self._positions.get(partition) != start for partition, (start, _) in ranges.items()):
            self._seek(ranges)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while missing := sum(
            max(0, end - self._reached[partition]) for partition, (_, end) in ranges.items()
        ):
            if self._receive(missing):
                deadline = time.monotonic() + _PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                raise ValueError(f"{missing} offsets have not been reached")
        messages = []
        for partition, (_, end) in ranges.items():
            waiting = self._waiting[partition]
            while waiting and (waiting[0].offset() or 0) < end:
                messages.append(waiting.popleft())
            self._positions[partition] = end
        return messages

    def _receive(self, count: int) -> int:
        """The number of messages and ends of partitions that have arrived."""
        assert self._consumer
        # It returns as soon as there are so many; more than are missing would be waited for.
        received = self._consumer.consume(count, timeout=0.05)
        for message in received:
            partition, offset = message.partition() or 0, message.offset() or 0
            if is_end(message):  # what has no message before it are marks of transactions
                self._reached[partition] = offset
            else:
                self._waiting[partition].append(message)
                self._reached[partition] = offset + 1
        if sum(len(message) for waiting in self._waiting.values() for message in waiting) > _MOST_BYTES:
            raise ValueError("the records are long")
        return len(received)

    def _seek(self, ranges: Ranges) -> None:
        if self._consumer is None:
            own = {"fetch.message.max.bytes": kafka.MAX_RECORD_BYTES}
            self._consumer = kafka.consumer(self._settings, {**RANGE_OPTIONS, **own})
        self._consumer.assign(
            [
                TopicPartition(self._settings.topic, partition, start)
                for partition, (start, _) in ranges.items()
            ]
        )
        self._positions = {partition: start for partition, (start, _) in ranges.items()}
        self._reached = dict(self._positions)
        self._waiting = {partition: deque() for partition in ranges}

    def _release(self) -> None:
        """Stops receiving records, so that none arrive that nobody will read, and forgets those that have arrived."""
        if self._consumer and self._positions:
            self._consumer.unassign()
        self._positions, self._waiting = {}, {}
