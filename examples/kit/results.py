"""A job's results, read without Spark, as any other process sees them."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from tidemark.contract.table import Table
from tidemark.errors import KafkaError
from tidemark.kafka import client as kafka
from tidemark.local.broker import located
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

_READ_SECONDS = 30.0


@dataclass(frozen=True)
class Message:
    """A record of a topic."""

    partition: int
    offset: int
    key: bytes
    value: bytes
    headers: Mapping[str, str]
    timestamp: datetime


@dataclass
class Results:
    """Reads the tables and topics of a home. `outages`: periods without a ready job, in epoch seconds."""

    settings: Settings
    outages: list[tuple[float, float]] = field(default_factory=list)
    _seen: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._store = DeltaRsStore(lakehouse.of(self.settings))

    def phase(self, begin: float, end: float) -> str:
        """Whether something that took from `begin` to `end` (epoch milliseconds) had to wait for a job that was down:
        "recovery", else "steady"."""
        waited = any(begin < up * 1000 and end > down * 1000 for down, up in self.outages)
        return "recovery" if waited else "steady"

    def table(self, table: Table) -> pa.Table:
        """All rows."""
        return self._store.read(table)

    def fresh(self, table: Table) -> pa.Table:
        """The rows written since the last call, by the table's clock column (such as `updated_at`)."""
        version = self._store.version(table)
        if self._seen.get(f"version {table.name}") == version:
            return table.arrow_schema.empty_table()
        rows = self._store.read(table)
        before = self._seen.get(table.name)
        if before is not None:
            rows = rows.filter(pc.greater(rows[table.clock], before))
        if rows.num_rows:
            self._seen[table.name] = pc.max(rows[table.clock])
        self._seen[f"version {table.name}"] = version
        return rows

    def messages(self, topic: str) -> list[Message]:
        """All committed records, by partition and offset."""
        return self._read(topic, {})

    def new_messages(self, topic: str) -> list[Message]:
        """Messages since the last call."""
        return self._read(topic, self._seen.setdefault(f"offsets {topic}", {}))

    def _read(self, topic: str, places: dict[int, int]) -> list[Message]:
        at = located(self.settings).kafka
        ends = kafka.end_offsets(at, topic)
        wanted = {p: end for p, end in ends.items() if end > places.get(p, 0)}
        if not wanted:
            return []
        messages: list[Message] = []
        consumer = Consumer(
            {
                **kafka.client_config(at),
                "group.id": "tidemark-results",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, p, places.get(p, 0)) for p in wanted])
            deadline = time.monotonic() + _READ_SECONDS
            while any(places.get(p, 0) < end for p, end in wanted.items()):
                for record in consumer.consume(1000, 0.2):
                    fault = record.error()
                    if fault is not None:
                        raise kafka.kafka_error(at, fault)
                    messages.append(_message(record))
                for place in consumer.position([TopicPartition(topic, p) for p in wanted]):
                    places[place.partition] = max(place.offset, places.get(place.partition, 0))
                if time.monotonic() > deadline:
                    raise KafkaError(
                        f"topic {topic!r} cannot be read to its end", "Look at the broker's log."
                    )
        finally:
            consumer.close()
        return sorted(messages, key=lambda m: (m.partition, m.offset))


def once(messages: Iterable[Message]) -> list[Message]:
    """The first message of each key, because a job may repeat a message after a crash."""
    first: dict[bytes, Message] = {}
    for message in messages:
        first.setdefault(message.key, message)
    return list(first.values())


def differences(what: str, wanted: Mapping[Any, Hashable], actual: Mapping[Any, Hashable]) -> Sequence[str]:
    """Differences between two mappings as text, one line each."""
    lines = []
    for key in sorted({*wanted, *actual}, key=repr):
        if wanted.get(key) != actual.get(key):
            lines.append(
                f"{what} {key}: should be {wanted.get(key, 'absent')}, is {actual.get(key, 'absent')}"
            )
    return lines


def _message(record: Any) -> Message:
    return Message(
        record.partition(),
        record.offset(),
        record.key() or b"",
        record.value() or b"",
        {name: value.decode("utf-8", "replace") for name, value in record.headers() or []},
        datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC),
    )
