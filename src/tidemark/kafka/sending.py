"""Sends records to Kafka: each once, in the order of a partition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from tidemark.errors import KafkaError
from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings

_FLUSH_SECONDS = 30.0
_POLL_SECONDS = 0.01


class Sender:
    """An idempotent producer: a retry writes no record twice. `what` names the records in errors."""

    def __init__(self, settings: KafkaSettings, what: str) -> None:
        self._settings = settings
        self._what = what
        self._failures: list[Any] = []
        self._producer = Producer(
            {
                **kafka.client_config(settings),
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.max.bytes": kafka.MAX_RECORD_BYTES,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _message: self._failures.append(error),
            }
        )

    def send(
        self, topic: str, value: bytes | None, *, stopped: Callable[[], bool] = lambda: False, **record: Any
    ) -> bool:
        """Queues a record, with the `key`, `headers`, `partition` or `timestamp` given. Waits while the queue is full;
        False if `stopped` came true meanwhile. Raises KafkaError if the producer sends nothing more."""
        while True:
            try:
                self._producer.produce(topic, value, **record)
                return True
            except BufferError:
                if stopped():
                    return False
                self.poll(0.1)
            except KafkaException as error:
                self.poll()  # raises the cause, if it was not reported yet
                raise kafka.kafka_error(self._settings, error.args[0]) from error

    def poll(self, seconds: float = 0.0) -> None:
        """Takes acknowledgements. Raises KafkaError if a record was refused, or the producer sends nothing more."""
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # a fatal error, which a producer reports once
            raise kafka.kafka_error(self._settings, error.args[0]) from error
        if self._failures:
            raise kafka.kafka_error(self._settings, self._failures[0])

    def flush(self) -> int:
        """Waits for acknowledgements, up to 30 s. Returns the number of records without one. Raises as `poll`."""
        # Not the client's `flush`, which runs `on_delivery` while it raises a fatal error: that ends as a SystemError.
        deadline = time.monotonic() + _FLUSH_SECONDS
        while len(self._producer) and time.monotonic() < deadline:
            self.poll(_POLL_SECONDS)
        self.poll()
        return len(self._producer)

    def close(self) -> None:
        """Returns when every record is acknowledged. Raises KafkaError if one is not."""
        if left := self.flush():
            raise KafkaError(
                f"{left:,} {self._what} were not acknowledged by Kafka", "Look at the broker's log."
            )
