"""Delivery of lines to Kafka when the producer breaks, and when the endpoint does not wait for it."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.kafka.broken import break_producer, library, mock_config, native
from tidemark.ingest import delivery
from tidemark.ingest.refusal import RefusedError
from tidemark.kafka import client
from tidemark.settings.sections import IngestSettings, KafkaSettings

SETTINGS = KafkaSettings(bootstrap_servers="127.0.0.1:1")
SLOW_MS = 900
library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p


@pytest.fixture(autouse=True)
def _mocked(monkeypatch: pytest.MonkeyPatch) -> None:
    config = mock_config(SETTINGS)
    monkeypatch.setattr(client, "client_config", lambda settings: config)


def _slow_down(producer: Producer) -> None:
    cluster = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(native(producer)))
    library.rd_kafka_mock_broker_set_rtt(cluster, -1, SLOW_MS)


def test_the_endpoint_answers_every_request_and_goes_on() -> None:
    one: list[Any] = [(b"a line", [])]

    async def requests() -> list[Any]:
        broken = endpoint._producer
        await endpoint.send(one)
        _slow_down(broken)
        waiting = [asyncio.create_task(endpoint.send(one)) for _ in range(3)]
        await asyncio.sleep(SLOW_MS / 5000)
        break_producer(broken)
        refused = asyncio.create_task(endpoint.send(one))
        answers = await asyncio.gather(*waiting, refused, return_exceptions=True)
        await endpoint.send(one)
        assert endpoint._producer is not broken
        return answers

    endpoint = delivery.Delivery(SETTINGS, IngestSettings())
    with endpoint.polling():
        *waited, refused = asyncio.run(asyncio.wait_for(requests(), 30))
    assert all(answer is None or isinstance(answer, RefusedError) for answer in waited)
    assert isinstance(refused, RefusedError) and refused.status == 503 and refused.headers["Retry-After"]


def test_an_endpoint_that_is_stopped_twice_ends_without_an_error() -> None:
    one: list[Any] = [(b"a line", [])]

    async def stopped() -> None:
        await endpoint.send(one)
        _slow_down(endpoint._producer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(endpoint.send(one), SLOW_MS / 3000)

    endpoint = delivery.Delivery(SETTINGS, IngestSettings())
    with endpoint.polling():
        asyncio.run(stopped())
