"""Faults that librdkafka reports, as errors that a user can act on."""

from __future__ import annotations

import socket
from contextlib import suppress

from confluent_kafka import KafkaError as Fault

from tidemark.errors import KafkaError
from tidemark.settings.sections import KafkaSettings


def kafka_error(settings: KafkaSettings, fault: Fault) -> KafkaError:
    """One clear error for a fault that librdkafka reports, naming the servers and the remedy."""
    address, message = settings.bootstrap_servers, " ".join(fault.str().split())
    if fault.code() in (Fault._AUTHENTICATION, Fault.SASL_AUTHENTICATION_FAILED):
        user = settings.username or "(none)"
        return KafkaError(
            f"Kafka at {address} refuses the credentials of user {user}",
            "Check kafka_username, kafka_password and kafka_sasl_mechanism.",
        )
    if fault.code() == Fault._SSL or mismatch(fault):
        return KafkaError(
            f"Kafka at {address} does not speak {settings.security_protocol} as we do: {message}",
            "Check kafka_security_protocol and kafka_ca_file.",
        )
    if fault.code() in (
        Fault.TOPIC_AUTHORIZATION_FAILED,
        Fault.CLUSTER_AUTHORIZATION_FAILED,
        Fault.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ):
        return KafkaError(
            f"Kafka at {address} does not allow this to user {settings.username or '(none)'}: {message}",
            "Give that user read, write and create rights on the topic and its transactional ids.",
        )
    if fault.code() in (Fault._TRANSPORT, Fault._TIMED_OUT, Fault._ALL_BROKERS_DOWN, Fault._RESOLVE):
        remedy = "Name the right address with --bootstrap-servers."
        if settings.uses_embedded_broker:
            remedy = "Run `tidemark broker start`, or name another Kafka by --bootstrap-servers."
        return KafkaError(f"Kafka at {address} cannot be reached", remedy)
    return KafkaError(f"Kafka at {address} reports {fault.name()}: {message}", "Look at the broker's log.")


def topic_error(settings: KafkaSettings, topic: str, fault: Fault) -> KafkaError:
    """The same for a fault of a request about `topic`."""
    if fault.code() in (Fault.INVALID_REPLICATION_FACTOR, Fault.INVALID_PARTITIONS, Fault.INVALID_CONFIG):
        return KafkaError(
            f"Kafka will not create topic {topic!r}: {fault.str()}",
            "Check topic_partitions and topic_replication.",
        )
    if fault.code() == Fault.TOPIC_EXCEPTION:
        return KafkaError(f"{topic!r} is no valid topic name", "Use letters, digits, '.', '_' and '-'.")
    return kafka_error(settings, fault)


def takes_connections(settings: KafkaSettings) -> bool:
    """Whether a server of the cluster accepts connections, whatever it answers."""
    for server in settings.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        with (
            suppress(OSError, ValueError),
            socket.create_connection((host.strip("[]"), int(port)), timeout=1),
        ):
            return True
    return False


def mismatch(fault: Fault) -> bool:
    """Whether the fault is about security settings that differ from the broker's."""
    # librdkafka reports a peer that hangs up during the handshake as a transport fault with a guess.
    return "security.protocol" in fault.str() or "SSL handshake" in fault.str()
