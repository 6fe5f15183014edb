"""Writes lines and progress to Kafka in one transaction, each batch exactly once."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, groupby, islice
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError as Fault
from confluent_kafka import KafkaException, Producer

from tidemark.errors import KafkaError
from tidemark.importing.file_import import Batch
from tidemark.importing.identity import Entry
from tidemark.importing.lines import Block
from tidemark.importing.progress import Progress
from tidemark.kafka import client as kafka
from tidemark.kafka.records import Headers, Record
from tidemark.settings.sections import KafkaSettings

if TYPE_CHECKING:  # takes a second to import, which only masked lines need
    from tidemark.privacy.door import Door

Part = tuple[Batch, Entry]

PATIENCE_SECONDS = 60.0
_TRANSACTION_SECONDS = 30.0
_SLICE_SECONDS = 2.0  # Blocking calls last at most this long, so that a signal is noticed in between.
_STOP_SECONDS = 5.0
_FENCED = (Fault._FENCED, Fault.PRODUCER_FENCED, Fault.INVALID_PRODUCER_EPOCH)
_REFUSED = (
    Fault.TOPIC_AUTHORIZATION_FAILED,
    Fault.CLUSTER_AUTHORIZATION_FAILED,
    Fault.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Fault._AUTHENTICATION,
    Fault.SASL_AUTHENTICATION_FAILED,
    Fault.MSG_SIZE_TOO_LARGE,
    Fault.TOPIC_EXCEPTION,
)


class OvertakenError(KafkaError):
    """Another sender of the same id has fenced this one."""


class Sender:
    """One transactional producer. Its id fences an earlier sender of the same id, dead or alive."""

    def __init__(
        self,
        settings: KafkaSettings,
        progress: Progress,
        transactional_id: str,
        headers: Headers,
        *,
        door: Door | None = None,
        say: Callable[[str], None],
        stopped: Callable[[], bool],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Returns when earlier transactions of this id have ended and `progress` includes them.

        Calls `say` when a fault lasts. When `stopped` becomes true, it no longer waits for the end of a fault.
        Raises KafkaError.
        """
        self._settings = settings
        self._progress = progress
        self._id = transactional_id
        self._headers = headers
        self._door = door
        self._say = say
        self._stopped = stopped
        self._patience = patience
        self._last_call = math.inf
        self._partitions = sorted(kafka.end_offsets(settings, settings.topic))
        if not self._partitions:
            raise KafkaError(f"topic {settings.topic!r} does not exist", "Start the import again.")
        self._turn: Iterator[int] = count(sum(transactional_id.encode()))
        self._producer = self._connect(time.monotonic() + patience)

    def send(self, batch: Batch, entry: Entry) -> None:
        """Commits the batch and its entry, both or neither, and waits up to a minute for the end of a fault.

        Raises KafkaError for a longer or permanent fault. The batch is then not committed, or, if
        Kafka was lost during the commit, the next start finds out.
        """
        known = self._progress.entries.get(entry.id)
        if known is not None and known.offset > entry.offset - batch.size:
            raise _overtaken(entry)
        self._commit([(batch, entry)])

    def send_together(self, parts: Sequence[Part]) -> None:
        """Commits batches of several objects and their entries, all or none, as `send` does one.

        The entries come first, so that another import, which reads the progress, waits for the end of the transaction.
        Raises KafkaError, and OvertakenError if another sender of the same id has begun, or may have: nothing was
        committed then.
        """
        self._commit(parts, shared=True)

    def reconnect(self) -> None:
        """Waits for the transactions of the sender that has fenced this one, and fences it in turn. The progress then
        includes what it has committed. Raises KafkaError."""
        self._progress.refresh()
        self._producer = self._connect(time.monotonic() + self._patience)

    def _commit(self, parts: Sequence[Part], *, shared: bool = False) -> None:
        entry = parts[-1][1]
        deadline = time.monotonic() + self._patience
        while True:
            began = time.monotonic()
            try:
                self._transaction(parts, deadline, entries_first=shared)
                return
            except KafkaException as error:
                fault = self._cause(error.args[0])
                expired = time.monotonic() - began > _TRANSACTION_SECONDS
                if fault.code() in _FENCED and not expired:
                    raise _overtaken(entry) from error
                if fault.code() in _REFUSED:
                    raise kafka.kafka_error(self._settings, fault) from error
                # A new producer of the same id ends the transactions of the old one, and progress then
                # shows whether the batch was committed. This resolves every uncertain state.
                self._producer = self._connect(deadline)
                if self._committed(parts):
                    return
                if shared:
                    raise _overtaken(entry) from error
                if self._over(deadline):  # each new producer fails, too
                    raise kafka.kafka_error(self._settings, fault) from error

    def _committed(self, parts: Sequence[Part]) -> bool:
        """Whether the progress has the last entries of all these parts."""
        entries = {entry.id: entry for _, entry in parts}
        known = [(self._progress.entries.get(id), entry) for id, entry in entries.items()]
        return all(has and has.offset >= entry.offset and has.etag == entry.etag for has, entry in known)

    def forget(self, entry_id: str) -> None:
        """Removes an entry that is no longer needed. A failure does no harm."""
        with contextlib.suppress(KafkaException):
            self._producer.begin_transaction()
            self._producer.produce(self._progress.topic, None, entry_id, 0)
            self._producer.commit_transaction(_STOP_SECONDS)

    def close(self) -> None:
        """Closes the producer and aborts a failed transaction, so that readers need not wait for it."""
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(_SLICE_SECONDS)
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(1)

    def _connect(self, deadline: float) -> Producer:
        producer = Producer(
            {
                **kafka.client_config(self._settings),
                "transactional.id": self._id,
                "transaction.timeout.ms": int(_TRANSACTION_SECONDS * 1000),
                "message.timeout.ms": int(_TRANSACTION_SECONDS * 1000) - 1000,
                "socket.timeout.ms": 10_000,
                "compression.type": "lz4",
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "batch.num.messages": 100_000,
                "message.max.bytes": kafka.MAX_RECORD_BYTES,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 64 * 1024,
            }
        )
        try:
            self._patiently(lambda: producer.init_transactions(_SLICE_SECONDS), deadline)
        except KafkaException as error:
            raise kafka.kafka_error(self._settings, error.args[0]) from error
        self._progress.refresh()
        return producer

    def _transaction(self, parts: Sequence[Part], deadline: float, *, entries_first: bool) -> None:
        self._producer.begin_transaction()
        if entries_first:
            self._produce_entries(parts, deadline)
        self._produce_blocks([block for batch, _ in parts for block in batch.blocks], deadline)
        if not entries_first:
            self._produce_entries(parts, deadline)
        self._patiently(lambda: self._producer.commit_transaction(_SLICE_SECONDS), deadline)

    def _produce_entries(self, parts: Sequence[Part], deadline: float) -> None:
        for _, entry in parts:
            self._produce(self._progress.topic, entry.to_json(), entry.id, 0, [], deadline)
        self._producer.poll(0)

    def _produce_blocks(self, blocks: Sequence[Block], deadline: float) -> None:
        producer, topic = self._producer, self._settings.topic
        produce = producer.produce
        for block, masked in self._masked(blocks):
            partition = self._partitions[next(self._turn) % len(self._partitions)]
            if masked is not None:
                for value, kept in masked:
                    try:
                        produce(topic, value, None, partition, None, None, 0, kept or None)
                    except BufferError:
                        self._produce(topic, value, None, partition, kept, deadline)
                producer.poll(0)
                continue
            own = self._headers_of(block)
            headers = own or None
            for line in block.lines:
                try:
                    # Positional arguments are faster; this is the hot path of an import.
                    produce(topic, line, None, partition, None, None, 0, headers)
                except BufferError:
                    self._produce(topic, line, None, partition, own, deadline)
            for data, chunk in block.parts:
                self._produce(topic, data, None, partition, [*own, ("chunk", chunk)], deadline)
            producer.poll(0)

    def _headers_of(self, block: Block) -> Headers:
        return [*self._headers, ("fields", block.fields)] if block.fields else self._headers

    def _masked(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, Sequence[Record] | None]]:
        """Each block with the records of its masked lines; None if lines are kept as they are."""
        if self._door is None:
            yield from ((block, None) for block in blocks)
            return
        # Lines of many blocks take less time together.
        for _, some in groupby(blocks, lambda block: block.fields):
            group = list(some)
            named: dict[str, Any] = dict(self._headers_of(group[0]))
            records = iter(self._door.records([line for block in group for line in block.lines], named))
            for block in group:
                own = list(islice(records, len(block.lines)))
                if block.parts:
                    data, chunks = zip(*block.parts, strict=True)
                    own += self._door.records(data, named, chunks)
                yield block, own

    def _produce(
        self, topic: str, value: bytes, key: str | None, partition: int, headers: Headers, deadline: float
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers or None)
                return
            except BufferError:
                self._make_room(deadline)

    def _cause(self, fault: Fault) -> Fault:
        """The cause of a fault: `produce` only reports a broken producer; aborting the transaction gives the cause."""
        if fault.code() in (Fault._FATAL, Fault._STATE):
            try:
                self._producer.abort_transaction(_SLICE_SECONDS)
            except KafkaException as error:
                cause: Fault = error.args[0]
                return cause
        return fault

    def _make_room(self, deadline: float) -> None:
        self._producer.poll(0.05)
        if self._over(deadline):
            raise self._gave_up()

    def _patiently(self, call: Callable[[], None], deadline: float) -> None:
        """Repeats a call while its error is retriable, until it succeeds or the deadline has passed."""
        for attempt in count(1):
            try:
                call()
                return
            except KafkaException as error:
                fault = error.args[0]
                if fault.code() in _REFUSED:
                    raise kafka.kafka_error(self._settings, fault) from error
                if not fault.retriable():
                    raise
                if self._over(deadline):
                    raise self._gave_up() from error
                if attempt == 2:
                    self._say(f"waiting for Kafka at {self._settings.bootstrap_servers}")

    def _over(self, deadline: float) -> bool:
        """Whether the deadline has passed; it is short once the user wants to stop."""
        if self._stopped():
            self._last_call = min(self._last_call, time.monotonic() + _STOP_SECONDS)
        return time.monotonic() > min(deadline, self._last_call)

    def _gave_up(self) -> KafkaError:
        return KafkaError(
            f"Kafka at {self._settings.bootstrap_servers} stopped answering during the import",
            "Start it and run the same command again: the import continues exactly where it stopped.",
        )


def _overtaken(entry: Entry) -> OvertakenError:
    return OvertakenError(
        f"another import of {entry.path} is running",
        "It continues where this one stopped; let it finish.",
    )
