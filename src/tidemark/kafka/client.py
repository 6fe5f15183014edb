"""Kafka as Tidemark uses it: client settings, topics, offsets, and errors the user can act on."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import KafkaError as Fault
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from tidemark.errors import KafkaError
from tidemark.kafka.security import client_security, spark_security
from tidemark.local.broker import bootstrap_servers
from tidemark.settings import Settings

MAX_RECORD_BYTES = 16 * 1024 * 1024
TOPIC_CONFIG: Mapping[str, str] = {"retention.ms": "-1", "max.message.bytes": str(MAX_RECORD_BYTES)}

_REFUSED = (Fault._AUTHENTICATION, Fault.SASL_AUTHENTICATION_FAILED, Fault._SSL)
_REQUEST_SECONDS = 15.0
_CLUSTER_DEFAULT = -1
# A partition that was just created, or whose broker just came back, has no leader for a moment.
_ELECTING = (Fault.NOT_LEADER_FOR_PARTITION, Fault.LEADER_NOT_AVAILABLE)
_ELECTION_SECONDS = 5.0

# librdkafka writes its log to stderr unless it is given a logger; this one shows only what is asked for.
_log = logging.getLogger("tidemark.kafka.client")
_log.addHandler(logging.NullHandler())
_log.propagate = False


def client_config(settings: Settings) -> dict[str, Any]:
    """Settings common to every confluent-kafka client: address, security, log.

    The result holds the password, so it must not be logged. Raises SettingError on a security
    setting that cannot work.
    """
    return {
        "bootstrap.servers": servers(settings),
        "client.id": "tidemark",
        "logger": _log,
        "reconnect.backoff.max.ms": 1000,
        **client_security(settings),
    }


def spark_options(settings: Settings) -> dict[str, str]:
    """The same for Spark's `kafka` source and sink: options whose names start with `kafka.`.

    Reads see committed records only. The result holds the password: do not log it. Raises SettingError
    like `client_config`.
    """
    return {
        "kafka.bootstrap.servers": servers(settings),
        "kafka.isolation.level": "read_committed",
        # A transaction ends with a mark, for whose place Spark waits at the end of a batch: by default 500 ms.
        "kafka.fetch.max.wait.ms": "1",
        "kafka.max.partition.fetch.bytes": str(MAX_RECORD_BYTES),
        "kafka.max.request.size": str(MAX_RECORD_BYTES),
        **spark_security(settings),
    }


def servers(settings: Settings) -> str:
    """Address of the Kafka in use: the one set, otherwise that of the home's embedded broker."""
    if settings.bootstrap_servers:
        return settings.bootstrap_servers
    return bootstrap_servers(settings)


def require_reachable(settings: Settings, timeout: float = 5.0) -> None:
    """Return once the cluster answers; otherwise raise KafkaError after at most about `timeout` s.

    Wrong credentials and a wrong or untrusted TLS set-up are told apart and raised at once.
    """
    faults: list[Fault] = []
    config = {**client_config(settings), "error_cb": faults.append}
    admin = AdminClient(config)
    deadline = time.monotonic() + timeout
    while True:
        try:
            admin.list_topics(timeout=max(0.1, min(0.5, deadline - time.monotonic())))
            return
        except KafkaException as error:
            faults.append(error.args[0])
        admin.poll(0.05)
        for fault in faults:
            if fault.code() in _REFUSED or (_mismatch(fault) and len(faults) > 5):
                raise kafka_error(settings, fault)
        if time.monotonic() >= deadline:
            mismatch = next(filter(_mismatch, faults), None)
            if mismatch is None and _takes_connections(settings):
                # Such as a listener with TLS that is spoken to without.
                raise KafkaError(
                    f"Kafka at {servers(settings)} takes connections, but has no answer to"
                    f" {settings.kafka_security_protocol}",
                    "Check kafka_security_protocol and kafka_ca_file, and that the broker has started.",
                )
            raise kafka_error(settings, mismatch or faults[0])


def ensure_topic(
    settings: Settings,
    topic: str,
    *,
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create `topic` when it is missing; one that exists is left as it is.

    A new topic keeps records for ever and takes records of up to 16 MiB; `config` adds to that or
    overrides it. `partitions` defaults to the setting. Raises KafkaError.
    """
    admin = admin_client(settings)
    if _partitions(settings, admin, topic):
        return
    wanted = NewTopic(
        topic,
        num_partitions=partitions or settings.topic_partitions,
        replication_factor=settings.topic_replication or _CLUSTER_DEFAULT,
        config={**TOPIC_CONFIG, **(config or {})},
    )
    deadline = time.monotonic() + _ELECTION_SECONDS
    while True:
        try:
            admin.create_topics([wanted], operation_timeout=_REQUEST_SECONDS)[topic].result(_REQUEST_SECONDS)
            break
        except KafkaException as error:
            if error.args[0].code() == Fault.TOPIC_ALREADY_EXISTS:
                break
            # A broker that has just come up answers before it counts as one that can take a replica.
            young = error.args[0].code() == Fault.INVALID_REPLICATION_FACTOR
            if not young or time.monotonic() > deadline:
                raise _topic_error(settings, topic, error.args[0]) from error
            time.sleep(0.1)
    deadline = time.monotonic() + _REQUEST_SECONDS
    while not _partitions(settings, admin, topic):
        if time.monotonic() > deadline:
            raise KafkaError(f"topic {topic!r} was created but does not appear", "Look at the broker's log.")
        time.sleep(0.05)


def admin_client(settings: Settings) -> AdminClient:
    """A client that creates and describes topics; it connects when it is first used."""
    return AdminClient(client_config(settings))


def topic_id(settings: Settings, topic: str) -> str | None:
    """The id that the cluster gave the topic when it was created; None when there is no such topic."""
    described = _described(settings, admin_client(settings), topic)
    return str(described.topic_id) if described else None


def beginning_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """First offset kept per partition; empty when there is no such topic."""
    return _offsets(settings, topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def end_offsets(
    settings: Settings, topic: str, *, committed: bool = True, admin: AdminClient | None = None
) -> dict[int, int]:
    """Offset after the last one that a read-committed reader may see now (the last stable offset),
    or with `committed=False` after the last one written; empty when there is no such topic.

    Who asks again and again brings a client of `admin_client`.
    """
    return _offsets(settings, topic, OffsetSpec.latest(), committed=committed, admin=admin)  # type: ignore[no-untyped-call]


def await_committed(settings: Settings, topic: str, timeout: float = 5.0) -> bool:
    """Wait until read-committed readers may see all that is in the topic now; False after `timeout` s.

    A commit returns before its markers are in the partitions, so the last lines show a moment later.
    """
    admin = admin_client(settings)
    written = end_offsets(settings, topic, committed=False, admin=admin)
    deadline = time.monotonic() + timeout
    while True:
        seen = end_offsets(settings, topic, admin=admin)
        if all(seen[partition] >= end for partition, end in written.items()):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def topic_config(settings: Settings, topic: str) -> dict[str, str]:
    """The topic's configuration as the broker has it."""
    admin, resource = admin_client(settings), ConfigResource(ResourceType.TOPIC, topic)
    try:
        entries = admin.describe_configs([resource])[resource].result(_REQUEST_SECONDS)
    except KafkaException as error:
        raise _topic_error(settings, topic, error.args[0]) from error
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}


def kafka_error(settings: Settings, fault: Fault) -> KafkaError:
    """One clear error for a fault that librdkafka reports, naming the servers and the remedy."""
    address, said = servers(settings), " ".join(fault.str().split())
    if fault.code() in (Fault._AUTHENTICATION, Fault.SASL_AUTHENTICATION_FAILED):
        user = settings.kafka_username or "(none)"
        return KafkaError(
            f"Kafka at {address} refuses the credentials of user {user}",
            "Check kafka_username, kafka_password and kafka_sasl_mechanism.",
        )
    if fault.code() == Fault._SSL or _mismatch(fault):
        return KafkaError(
            f"Kafka at {address} does not speak {settings.kafka_security_protocol} as we do: {said}",
            "Check kafka_security_protocol and kafka_ca_file.",
        )
    if fault.code() in (
        Fault.TOPIC_AUTHORIZATION_FAILED,
        Fault.CLUSTER_AUTHORIZATION_FAILED,
        Fault.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ):
        return KafkaError(
            f"Kafka at {address} does not allow this to user {settings.kafka_username or '(none)'}: {said}",
            "Give that user read, write and create rights on the topic and its transactional ids.",
        )
    if fault.code() in (Fault._TRANSPORT, Fault._TIMED_OUT, Fault._ALL_BROKERS_DOWN, Fault._RESOLVE):
        remedy = "Name the right address with --bootstrap-servers."
        if settings.uses_embedded_broker:
            remedy = "Run `tidemark broker start`, or name another Kafka by --bootstrap-servers."
        return KafkaError(f"Kafka at {address} cannot be reached", remedy)
    return KafkaError(f"Kafka at {address} reports {fault.name()}: {said}", "Look at the broker's log.")


def _takes_connections(settings: Settings) -> bool:
    for server in servers(settings).split(","):
        host, _, port = server.strip().rpartition(":")
        with (
            suppress(OSError, ValueError),
            socket.create_connection((host.strip("[]"), int(port)), timeout=1),
        ):
            return True
    return False


def _mismatch(fault: Fault) -> bool:
    # librdkafka reports a peer that hangs up during the handshake as a transport fault with a guess.
    return "security.protocol" in fault.str() or "SSL handshake" in fault.str()


def _partitions(settings: Settings, admin: AdminClient, topic: str) -> list[int]:
    described = _described(settings, admin, topic)
    return [partition.id for partition in described.partitions] if described else []


def _described(settings: Settings, admin: AdminClient, topic: str) -> TopicDescription | None:
    """None for a topic that is missing. Never creates it, unlike a metadata request."""
    request = admin.describe_topics(TopicCollection([topic]), request_timeout=_REQUEST_SECONDS)
    try:
        described: TopicDescription = request[topic].result(_REQUEST_SECONDS + 1)
    except KafkaException as error:
        if error.args[0].code() == Fault.UNKNOWN_TOPIC_OR_PART:
            return None
        raise _topic_error(settings, topic, error.args[0]) from error
    return described


def _offsets(
    settings: Settings,
    topic: str,
    spec: OffsetSpec,
    *,
    committed: bool = True,
    admin: AdminClient | None = None,
) -> dict[int, int]:
    admin = admin or admin_client(settings)
    wanted = {TopicPartition(topic, p): spec for p in _partitions(settings, admin, topic)}
    if not wanted:
        return {}
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    deadline = time.monotonic() + _ELECTION_SECONDS
    while True:
        found = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_REQUEST_SECONDS)
        try:
            return {tp.partition: f.result(_REQUEST_SECONDS + 1).offset for tp, f in found.items()}
        except KafkaException as error:
            if error.args[0].code() not in _ELECTING or time.monotonic() > deadline:
                raise _topic_error(settings, topic, error.args[0]) from error
            time.sleep(0.1)


def _topic_error(settings: Settings, topic: str, fault: Fault) -> KafkaError:
    if fault.code() in (Fault.INVALID_REPLICATION_FACTOR, Fault.INVALID_PARTITIONS, Fault.INVALID_CONFIG):
        return KafkaError(
            f"Kafka will not create topic {topic!r}: {fault.str()}",
            "Check topic_partitions and topic_replication.",
        )
    if fault.code() == Fault.TOPIC_EXCEPTION:
        return KafkaError(f"{topic!r} is no valid topic name", "Use letters, digits, '.', '_' and '-'.")
    return kafka_error(settings, fault)
