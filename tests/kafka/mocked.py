"""Producers with a cluster inside the client, which a test slows down, and fatal errors of producers."""

from __future__ import annotations

import ctypes

import pytest
from confluent_kafka import Producer, cimpl

from tidemark.kafka import client
from tidemark.settings.sections import KafkaSettings

SETTINGS = KafkaSettings(bootstrap_servers="127.0.0.1:1")
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
_library = ctypes.CDLL(cimpl.__file__)
_library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p


def mock_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each producer has a cluster of its own in the client."""
    config = client.client_config(SETTINGS) | {"test.mock.num.brokers": 1}
    del config["bootstrap.servers"]
    monkeypatch.setattr(client, "client_config", lambda settings: config)


def slow_down(producer: Producer, milliseconds: int) -> None:
    cluster = ctypes.c_void_p(_library.rd_kafka_handle_mock_cluster(_native(producer)))
    _library.rd_kafka_mock_broker_set_rtt(cluster, -1, milliseconds)


def break_down(producer: Producer) -> None:
    """Gives the producer a fatal error: it sends nothing more."""
    assert not _library.rd_kafka_test_fatal_error(_native(producer), OUT_OF_ORDER_SEQUENCE_NUMBER, b"lost")


def _native(producer: Producer) -> ctypes.c_void_p:
    """The client of a producer, which stands behind the head of a Python object."""
    return ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)
