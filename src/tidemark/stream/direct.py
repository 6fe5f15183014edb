"""The records of a small batch, read by a client in this process: Spark's job takes longer than the rest of its work.

Spark still decides which offsets belong to a batch, and reads every batch that is large or unusual.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from itertools import islice

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tidemark.kafka import client as kafka
from tidemark.kafka.messages import records
from tidemark.settings.sections import KafkaSettings

# Offsets from the first to before the last, by partition.
Ranges = Mapping[int, tuple[int, int]]

# A larger batch is one of a backlog, which Spark reads.
MOST_ROWS = 20_000
_MOST_BYTES = 16 << 20
_PATIENCE_SECONDS = 1.0
# Seconds for which Spark reads all batches after a failure, such as a transaction mark in a range.
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
        self._waiting: dict[int, deque[Message]] = {}
        self._pause = Pause()

    def read(self, ranges: Ranges) -> pa.Table | None:
        """The records of these ranges (`tidemark.kafka.messages.records`). None if Spark has to read them, because they
        are many, do not have all offsets of the ranges, or the cluster does not answer in time."""
        if sum(end - start for start, end in ranges.values()) > MOST_ROWS or self._pause.lasts:
            self._release()
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
        """All messages of the ranges. Raises KafkaException; ValueError if an offset has no message in time."""
        if any(self._positions.get(partition) != start for partition, (start, _) in ranges.items()):
            self._seek(ranges)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while missing := sum(self._missing(partition, end) for partition, (_, end) in ranges.items()):
            self._receive(missing)
            if time.monotonic() > deadline:
                raise ValueError(f"{missing} records have not arrived")
        messages = []
        for partition, (start, end) in ranges.items():
            waiting = self._waiting[partition]
            if [message.offset() for message in islice(waiting, end - start)] != list(range(start, end)):
                raise ValueError(f"partition {partition} lacks an offset from {start} to {end}")
            messages += [waiting.popleft() for _ in range(start, end)]
            self._positions[partition] = end
        return messages

    def _missing(self, partition: int, end: int) -> int:
        waiting = self._waiting[partition]
        reached = (waiting[-1].offset() or 0) + 1 if waiting else self._positions[partition]
        return max(0, end - reached)

    def _receive(self, count: int) -> None:
        assert self._consumer
        # It returns as soon as there are so many; more than are missing would be waited for.
        for message in self._consumer.consume(count, timeout=0.05):
            if fault := message.error():
                raise KafkaException(fault)
            self._waiting[message.partition() or 0].append(message)
        if sum(len(message) for waiting in self._waiting.values() for message in waiting) > _MOST_BYTES:
            raise ValueError("the records are long")

    def _seek(self, ranges: Ranges) -> None:
        if self._consumer is None:
            self._consumer = kafka.consumer(
                self._settings,
                {
                    "auto.offset.reset": "error",
                    "fetch.message.max.bytes": kafka.MAX_RECORD_BYTES,
                    "queued.max.messages.kbytes": _MOST_BYTES >> 10,
                    "fetch.queue.backoff.ms": 10,
                    # The client starts at another offset only after the broker has answered its last request.
                    "fetch.wait.max.ms": 100,
                },
            )
        self._consumer.assign(
            [
                TopicPartition(self._settings.topic, partition, start)
                for partition, (start, _) in ranges.items()
            ]
        )
        self._positions = {partition: start for partition, (start, _) in ranges.items()}
        self._waiting = {partition: deque() for partition in ranges}

    def _release(self) -> None:
        """Stops receiving records, so that none arrive that nobody will read."""
        if self._consumer and self._positions:
            self._consumer.unassign()
        self._positions = {}
