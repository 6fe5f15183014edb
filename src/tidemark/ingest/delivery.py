"""Sends the records of requests to Kafka, and reports when Kafka has acknowledged all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any

from confluent_kafka import KafkaError as Fault
from confluent_kafka import KafkaException, Producer

from tidemark.ingest.refusal import RETRY_SECONDS, RefusedError, busy
from tidemark.kafka import client as kafka
from tidemark.kafka.records import Record
from tidemark.settings.sections import IngestSettings, KafkaSettings

_MOST_WAITING = 1_000_000
_POLL_SECONDS = 0.1
_REPLACE_SECONDS = 0.5
log = logging.getLogger("tidemark.ingest")


class Delivery:
    """One idempotent producer for all requests. Each record is acknowledged by all in-sync replicas or reported as
    failed within `timeout_seconds`."""

    def __init__(self, settings: KafkaSettings, ingest: IngestSettings) -> None:
        self._settings = settings
        self._config: dict[str, Any] = {
            **kafka.client_config(settings),
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": int(ingest.timeout_seconds * 1000),
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.max.bytes": kafka.MAX_RECORD_BYTES,
            # The requests' budget is the narrower bound.
            "queue.buffering.max.messages": _MOST_WAITING,
            "queue.buffering.max.kbytes": 2 * ingest.buffer_bytes // 1024 + 1024,
        }
        self._producer = Producer(self._config)

    async def send(self, records: Sequence[Record]) -> None:
        """Returns when Kafka has acknowledged all records; raises RefusedError if it has not, and perhaps has some."""
        if not records:
            return
        producer = self._producer
        request = _Request(len(records), asyncio.get_running_loop())
        await asyncio.to_thread(self._produce, producer, records, request)
        await request.done
        if request.fault is not None:
            raise self._refusal(request.fault)

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Serves the acknowledgements while the context is open, and replaces a producer that sends nothing more."""
        ended = Event()

        def poll() -> None:
            replaced: list[Producer] = []
            while not ended.is_set():
                # Requests may still wait for the reports of a producer that was replaced.
                replaced = [each for each in replaced if each.poll(0) or len(each)]
                try:
                    self._producer.poll(_POLL_SECONDS)
                except KafkaException as error:  # a fatal error, which a producer reports once
                    log.error("%s", kafka.kafka_error(self._settings, error.args[0]))
                    replaced.append(self._producer)
                    # The next one may fail at once, too.
                    ended.wait(_REPLACE_SECONDS)
                    self._producer = Producer(self._config)

        thread = Thread(target=poll, name="acknowledgements", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with suppress(KafkaException, SystemError):  # a fatal error, alone or during a report
                self._producer.flush(1)

    def _produce(self, producer: Producer, records: Sequence[Record], request: _Request) -> None:
        topic = self._settings.topic
        for number, (value, headers) in enumerate(records):
            try:
                producer.produce(topic, value, headers=headers or None, on_delivery=request.acknowledged)
            except BufferError:
                request.settle(len(records) - number, Fault(Fault._QUEUE_FULL))
                return
            except KafkaException as error:
                request.settle(len(records) - number, error.args[0])
                return

    def _refusal(self, fault: Fault) -> RefusedError:
        if fault.code() == Fault._QUEUE_FULL:
            return busy("too many lines wait for Kafka: send the request again later")
        if fault.code() == Fault.MSG_SIZE_TOO_LARGE:
            return RefusedError(413, "Kafka refuses a line of this size (max.message.bytes of the topic)")
        log.error("%s", kafka.kafka_error(self._settings, fault))
        return RefusedError(
            503,
            f"Kafka has not acknowledged every line ({fault.name()}): send the request again;"
            " lines with an id count once",
            Retry_After=str(RETRY_SECONDS),
        )


class _Request:
    """A request whose records Kafka has not all acknowledged yet. Threads that produce and poll settle them."""

    def __init__(self, records: int, loop: asyncio.AbstractEventLoop) -> None:
        self.fault: Fault | None = None
        self.done = loop.create_future()
        self._loop = loop
        self._lock = Lock()
        self._open = records

    def acknowledged(self, fault: Fault | None, _message: object) -> None:
        self.settle(1, fault)

    def settle(self, records: int, fault: Fault | None) -> None:
        """Counts records as acknowledged, or, with a `fault`, as failed."""
        with self._lock:
            self.fault = self.fault or fault
            self._open -= records
            ended = not self._open
        if ended:
            with suppress(RuntimeError):  # the loop is closed: the endpoint has not waited for this request
                self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if not self.done.done():  # cancelled, when the endpoint stops
            self.done.set_result(None)
