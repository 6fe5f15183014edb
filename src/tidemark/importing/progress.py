"""The progress of each imported file, kept in Kafka beside the lines."""

from __future__ import annotations

import time
from collections.abc import MutableMapping

from confluent_kafka import KafkaError as Fault
from confluent_kafka import TopicPartition

from tidemark.errors import KafkaError
from tidemark.importing.identity import Entry
from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings

_PASSING = (Fault._TRANSPORT, Fault._ALL_BROKERS_DOWN, *kafka.ELECTING)
_PATIENCE_SECONDS = 60.0
_MOST_KBYTES_AHEAD = 2048


class Progress:
    """The committed entries of one topic's imports, by entry id."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str = "",
        entries: MutableMapping[str, Entry] | None = None,
        *,
        read: bool = True,
    ) -> None:
        """Creates a missing progress topic and reads it into `entries`; by default that of files. Without `read`, the
        first call of `refresh` reads it. Raises KafkaError."""
        self._settings = settings
        self.topic = topic or f"{settings.topic}-imports"
        kafka.ensure_topic(settings, self.topic, partitions=1, config={"cleanup.policy": "compact"})
        self.entries: MutableMapping[str, Entry] = {} if entries is None else entries
        self._consumer = kafka.consumer(
            settings,
            {
                "group.id": "tidemark-import",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                # Otherwise it keeps a hundred thousand entries that this import commits itself in memory.
                "queued.min.messages": 1000,
                "queued.max.messages.kbytes": _MOST_KBYTES_AHEAD,
            },
        )
        self._consumer.assign([TopicPartition(self.topic, 0, 0)])
        self._reached = 0
        # Grows with each entry that is read.
        self.revision = 0
        if read:
            self.refresh()

    def refresh(self) -> None:
        """Reads until every entry written before this call is known.

        An open transaction of another import hides later records, so this waits for its end. The
        broker ends the transaction of a dead import after half a minute. Raises KafkaError.
        """
        end = kafka.end_offsets(self._settings, self.topic, committed=False).get(0, 0)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._reached < end:
            message = self._consumer.poll(0.5)
            if time.monotonic() > deadline:
                raise KafkaError(
                    f"topic {self.topic!r} cannot be read to its end",
                    "Another import may hang: stop it, and start again.",
                )
            if message is None:
                continue
            fault = message.error()
            if fault is not None:
                if fault.code() == Fault._PARTITION_EOF:
                    self._reached = max(self._reached, message.offset() or 0)
                elif not fault.retriable() and fault.code() not in _PASSING:
                    raise kafka.kafka_error(self._settings, fault)
                continue
            self._reached = max(self._reached, (message.offset() or 0) + 1)
            self._take(message.key(), message.value())

    def of_site(self, site: str) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.site == site]

    def close(self) -> None:
        self._consumer.close()

    def _take(self, key: bytes | str | None, value: bytes | str | None) -> None:
        self.revision += 1
        name = key.decode() if isinstance(key, bytes) else str(key)
        if value is None:
            self.entries.pop(name, None)
            return
        try:
            raw = value if isinstance(value, bytes) else value.encode()
            self.entries[name] = Entry.from_json(raw)
        except (ValueError, KeyError, TypeError) as error:
            raise KafkaError(
                f"topic {self.topic!r} holds an entry that this version cannot read: {name}",
                "Import with the version that wrote it, or a newer one.",
            ) from error
