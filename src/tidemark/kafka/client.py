"""Access to Kafka: client settings, topics, offsets, and errors the user can act on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import KafkaError as Fault
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from tidemark.errors import KafkaError
from tidemark.kafka.faults import kafka_error as kafka_error
from tidemark.kafka.faults import mismatch, takes_connections, topic_error
from tidemark.kafka.security import client_security, spark_security
from tidemark.local.process import wait_until
from tidemark.settings.sections import KafkaSettings

T = TypeVar("T")

MAX_RECORD_BYTES = 16 * 1024 * 1024
TOPIC_CONFIG: Mapping[str, str] = {"retention.ms": "-1", "max.message.bytes": str(MAX_RECORD_BYTES)}

_REFUSED = (Fault._AUTHENTICATION, Fault.SASL_AUTHENTICATION_FAILED, Fault._SSL)
_NO_ANSWER = (Fault._TIMED_OUT, Fault._TRANSPORT, Fault._ALL_BROKERS_DOWN, Fault.REQUEST_TIMED_OUT)
# A request without an answer is repeated: for 30 s while the cluster accepts connections, else for 15 s.
_TRY_SECONDS = 5.0
_REFUSED_TRIES, _SILENT_TRIES = 3, 6
_CLUSTER_DEFAULT = -1
# For a moment after its creation or the return of its broker a partition has no leader, or one that the broker itself
# does not know yet.
ELECTING = (
    Fault.NOT_LEADER_FOR_PARTITION,
    Fault.LEADER_NOT_AVAILABLE,
    Fault.UNKNOWN_LEADER_EPOCH,
    Fault.FENCED_LEADER_EPOCH,
)
_ELECTION_SECONDS = 5.0
_APPEAR_SECONDS = 15.0

# Without a logger librdkafka writes to stderr; this logger shows only what is configured.
_log = logging.getLogger("tidemark.kafka.client")
_log.addHandler(logging.NullHandler())
_log.propagate = False


def client_config(settings: KafkaSettings) -> dict[str, Any]:
    """Settings common to every confluent-kafka client: address, security, log.

    The result holds the password and must not be logged. Raises SettingError for an invalid security
    setting.
    """
    assert settings.bootstrap_servers, "use settings of tidemark.local.broker.located"
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": "tidemark",
        "logger": _log,
        "reconnect.backoff.max.ms": 1000,
        **client_security(settings),
    }


def consumer(settings: KafkaSettings, more: Mapping[str, Any]) -> Consumer:
    """A consumer of committed records from partitions that it is assigned. It joins no group and commits nothing.
    `more` adds to its settings or overrides them. Raises SettingError like `client_config`."""
    return Consumer(
        {
            **client_config(settings),
            "group.id": "tidemark",  # required by the client
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **more,
        }
    )


def spark_options(settings: KafkaSettings) -> dict[str, str]:
    """The same for Spark's `kafka` source and sink: options whose names start with `kafka.`.

    Reads see committed records only. The result holds the password: do not log it. Raises SettingError
    like `client_config`.
    """
    assert settings.bootstrap_servers, "use settings of tidemark.local.broker.located"
    return {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        # At the end of a batch Spark waits for the offset of a transaction's end mark: by default 500 ms.
        "kafka.fetch.max.wait.ms": "1",
        "kafka.max.partition.fetch.bytes": str(MAX_RECORD_BYTES),
        # Spark asks the broker for the partition's offsets after each poll, which has 500 records by default.
        "kafka.max.poll.records": "20000",
        "kafka.max.request.size": str(MAX_RECORD_BYTES),
        **spark_security(settings),
    }


def require_reachable(settings: KafkaSettings, timeout: float = 5.0) -> None:
    """Returns when the cluster answers; otherwise raises KafkaError after at most about `timeout` s.

    Wrong credentials and wrong or untrusted TLS settings are separate errors, raised at once.
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
            if fault.code() in _REFUSED or (mismatch(fault) and len(faults) > 5):
                raise kafka_error(settings, fault)
        if time.monotonic() >= deadline:
            different = next(filter(mismatch, faults), None)
            if different is None and takes_connections(settings):
                # For example a TLS listener that gets a plain request.
                raise KafkaError(
                    f"Kafka at {settings.bootstrap_servers} takes connections, but has no answer to"
                    f" {settings.security_protocol}",
                    "Check kafka_security_protocol and kafka_ca_file, and that the broker has started.",
                )
            raise kafka_error(settings, different or faults[0])


def ensure_topic(
    settings: KafkaSettings,
    topic: str,
    *,
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Creates `topic` if it is missing; an existing one stays as it is.

    A new topic keeps records without limit and accepts records of up to 16 MiB; `config` adds to that or
    overrides it. `partitions` defaults to the setting. Raises KafkaError.
    """
    admin = admin_client(settings)
    if _partitions(settings, topic, admin):
        return
    wanted = NewTopic(
        topic,
        num_partitions=partitions or settings.partitions,
        replication_factor=settings.replication or _CLUSTER_DEFAULT,
        config={**TOPIC_CONFIG, **(config or {})},
    )

    def create(client: AdminClient) -> None:
        client.create_topics([wanted], operation_timeout=_TRY_SECONDS, request_timeout=_TRY_SECONDS)[
            topic
        ].result()

    deadline = time.monotonic() + _ELECTION_SECONDS
    while True:
        try:
            _answer(settings, create, admin)
            break
        except KafkaException as error:
            # Also if an earlier request whose answer was lost has created it.
            if error.args[0].code() == Fault.TOPIC_ALREADY_EXISTS:
                break
            # A starting broker answers before it can take a replica.
            young = error.args[0].code() == Fault.INVALID_REPLICATION_FACTOR
            if not young or time.monotonic() > deadline:
                raise topic_error(settings, topic, error.args[0]) from error
            time.sleep(0.1)
    if not wait_until(lambda: bool(_partitions(settings, topic, admin)), _APPEAR_SECONDS):
        raise KafkaError(f"topic {topic!r} was created but does not appear", "Look at the broker's log.")


def admin_client(settings: KafkaSettings) -> AdminClient:
    """A client that creates and describes topics; it connects on first use."""
    return AdminClient(client_config(settings))


def topic_id(settings: KafkaSettings, topic: str) -> str | None:
    """The topic's id, assigned by the cluster at its creation; None if there is no such topic."""
    described = _described(settings, topic)
    return str(described.topic_id) if described else None


def beginning_offsets(settings: KafkaSettings, topic: str) -> dict[int, int]:
    """First available offset per partition; empty if there is no such topic."""
    return _offsets(settings, topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def end_offsets(
    settings: KafkaSettings, topic: str, *, committed: bool = True, admin: AdminClient | None = None
) -> dict[int, int]:
    """Offset after the last one that a read-committed reader may see now (the last stable offset),
    or with `committed=False` after the last one written; empty if there is no such topic.

    Frequent callers pass a client of `admin_client`.
    """
    return _offsets(settings, topic, OffsetSpec.latest(), committed=committed, admin=admin)  # type: ignore[no-untyped-call]


def await_committed(settings: KafkaSettings, topic: str, timeout: float = 5.0) -> bool:
    """Waits until read-committed readers may see all current records of the topic; False after `timeout` s.

    A commit returns before its markers are in the partitions, so readers see the last lines a moment later.
    """
    admin = admin_client(settings)
    written = end_offsets(settings, topic, committed=False, admin=admin)

    def seen() -> bool:
        ends = end_offsets(settings, topic, admin=admin)
        return all(ends[partition] >= end for partition, end in written.items())

    return wait_until(seen, timeout)


def _partitions(settings: KafkaSettings, topic: str, admin: AdminClient | None = None) -> list[int]:
    described = _described(settings, topic, admin)
    return [partition.id for partition in described.partitions] if described else []


def _described(
    settings: KafkaSettings, topic: str, admin: AdminClient | None = None
) -> TopicDescription | None:
    """The topic's description; None if it is missing. Never creates it, unlike a metadata request."""

    def describe(client: AdminClient) -> TopicDescription:
        request = client.describe_topics(TopicCollection([topic]), request_timeout=_TRY_SECONDS)
        described: TopicDescription = request[topic].result()
        return described

    try:
        return _answer(settings, describe, admin)
    except KafkaException as error:
        if error.args[0].code() == Fault.UNKNOWN_TOPIC_OR_PART:
            return None
        raise topic_error(settings, topic, error.args[0]) from error


def _offsets(
    settings: KafkaSettings,
    topic: str,
    spec: OffsetSpec,
    *,
    committed: bool = True,
    admin: AdminClient | None = None,
) -> dict[int, int]:
    # Not `or`: a client without messages to send has the length 0 and counts as false.
    admin = admin_client(settings) if admin is None else admin
    wanted = {TopicPartition(topic, p): spec for p in _partitions(settings, topic, admin)}
    if not wanted:
        return {}
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def look_up(client: AdminClient) -> dict[int, int]:
        futures = client.list_offsets(wanted, isolation_level=isolation, request_timeout=_TRY_SECONDS)
        return {tp.partition: request.result().offset for tp, request in futures.items()}

    deadline = time.monotonic() + _ELECTION_SECONDS
    while True:
        try:
            return _answer(settings, look_up, admin)
        except KafkaException as error:
            if error.args[0].code() not in ELECTING or time.monotonic() > deadline:
                raise topic_error(settings, topic, error.args[0]) from error
            time.sleep(0.1)


def _answer(settings: KafkaSettings, ask: Callable[[AdminClient], T], admin: AdminClient | None = None) -> T:
    """The result of `ask`, which is called again, with a new client, while the cluster does not answer: a broker
    that is starved of CPU or restarts answers a moment later. Raises the last KafkaException.
    """
    for tries_left in reversed(range(_SILENT_TRIES)):
        started = time.monotonic()
        try:
            return ask(admin_client(settings) if admin is None else admin)
        except KafkaException as error:
            refused = tries_left <= _SILENT_TRIES - _REFUSED_TRIES and not takes_connections(settings)
            if error.args[0].code() not in _NO_ANSWER or not tries_left or refused:
                raise
        admin = None
        time.sleep(max(0.0, min(0.5, started + _TRY_SECONDS - time.monotonic())))
    raise AssertionError("unreachable: the last try returns or raises")
