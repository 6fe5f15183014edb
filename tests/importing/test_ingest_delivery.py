"""Delivery of lines to Kafka when the producer breaks, and when the endpoint does not wait for it."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any

import pytest
from confluent_kafka import Producer, cimpl

from tidemark.ingest import delivery
from tidemark.ingest.refusal import RefusedError
from tidemark.kafka import client
from tidemark.settings.sections import IngestSettings, KafkaSettings

SETTINGS = KafkaSettings(bootstrap_servers="127.0.0.1:1")
SLOW_MS = 900
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
_library = ctypes.CDLL(cimpl.__file__)
_library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p


@pytest.fixture(autouse=True)
def _mocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each producer has a cluster of its own in the client."""
    config = client.client_config(SETTINGS) | {"test.mock.num.brokers": 1}
    del config["bootstrap.servers"]
    monkeypatch.setattr(client, "client_config", lambda settings: config)


def _native(producer: Producer) -> ctypes.c_void_p:
    """The client of a producer, which stands behind the head of a Python object."""
    return ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)


def _slow_down(producer: Producer) -> None:
    cluster = ctypes.c_void_p(_library.rd_kafka_handle_mock_cluster(_native(producer)))
    _library.rd_kafka_mock_broker_set_rtt(cluster, -1, SLOW_MS)


def _break(producer: Producer) -> None:
    assert not _library.rd_kafka_test_fatal_error(_native(producer), OUT_OF_ORDER_SEQUENCE_NUMBER, b"lost")


def test_the_endpoint_answers_every_request_and_goes_on() -> None:
    one: list[Any] = [(b"a line", [])]

    async def requests() -> list[Any]:
        broken = endpoint._producer
        await endpoint.send(one)
        _slow_down(broken)
        waiting = [asyncio.create_task(endpoint.send(one)) for _ in range(3)]
        await asyncio.sleep(SLOW_MS / 5000)
        _break(broken)
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
