"""Producers of the Kafka client that break for good, and clusters within the client."""

from __future__ import annotations

import ctypes
from typing import Any

from confluent_kafka import Producer, cimpl

from tidemark.kafka import client
from tidemark.settings.sections import KafkaSettings

_OUT_OF_ORDER_SEQUENCE_NUMBER = 45
library = ctypes.CDLL(cimpl.__file__)


def mock_config(settings: KafkaSettings) -> dict[str, Any]:
    """Settings of a client with a cluster of its own."""
    config = client.client_config(settings) | {"test.mock.num.brokers": 1}
    del config["bootstrap.servers"]
    return config


def native(producer: Producer) -> ctypes.c_void_p:
    """The client of a producer, which stands behind the head of a Python object."""
    return ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)


def break_producer(producer: Producer) -> None:
    """Has the client find that acknowledged records are lost: then it sends nothing more."""
    assert not library.rd_kafka_test_fatal_error(native(producer), _OUT_OF_ORDER_SEQUENCE_NUMBER, b"lost")
