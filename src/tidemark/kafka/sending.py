"""Sends records to Kafka: each once, in the order of a partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from tidemark.errors import KafkaError
from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings

_FLUSH_SECONDS = 30.0


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
                self._serve(self._producer.poll, 0.1)
            except KafkaException as error:
                self.poll()  # tells why, if the producer is broken
                raise kafka.kafka_error(self._settings, error.args[0]) from error

    def poll(self) -> None:
        """Takes acknowledgements. Raises KafkaError if a record was refused."""
        self._serve(self._producer.poll, 0)
        if self._failures:
            raise kafka.kafka_error(self._settings, self._failures[0])

    def flush(self) -> int:
        """Waits for acknowledgements, up to 30 s. Returns the number of records without one. Raises as `poll`."""
        left = self._serve(self._producer.flush, _FLUSH_SECONDS)
        self.poll()
        return left

    def close(self) -> None:
        """Returns when every record is acknowledged. Raises KafkaError if one is not."""
        if left := self.flush():
            raise KafkaError(
                f"{left:,} {self._what} were not acknowledged by Kafka", "Look at the broker's log."
            )

    def _serve(self, reports: Callable[[float], int], seconds: float) -> int:
        """Calls what takes the client's reports, among which a fatal error is an exception."""
        try:
            return reports(seconds)
        except KafkaException as error:
            raise kafka.kafka_error(self._settings, error.args[0]) from error
