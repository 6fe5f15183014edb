"""Messages of a Kafka client as Arrow rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaException, Message
from confluent_kafka import KafkaError as Fault

from tidemark.kafka.records import HEADERS

# Later moments, for example of a producer that writes nanoseconds, overflow microseconds.
_MOST_MILLISECONDS = ((1 << 63) - 1) // 1000


def records(topic: str, messages: Sequence[Message]) -> pa.Table:
    """The messages as rows: topic, partition, offset, kafka_timestamp (microseconds; NULL if there is none that fits),
    value, and the headers of lines as text. Raises ValueError for a header that is no text."""
    headers = list(_headers(messages))
    present, nothing = frozenset[str]().union(*headers), pa.nulls(len(messages), pa.string())
    columns = {
        "topic": pa.repeat(pa.scalar(topic, pa.string()), len(messages)),
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
        "kafka_timestamp": pa.array(map(_microseconds, messages), pa.int64()).cast(
            pa.timestamp("us", tz="UTC")
        ),
        "value": pa.array([message.value() or b"" for message in messages], pa.binary()),
    }
    # Most lines have no header, and looking for each takes longer than all the rest.
    texts = {
        name: pa.array([_text(each.get(name)) for each in headers], pa.string())
        if name in present
        else nothing
        for name in HEADERS
    }
    return pa.table({**columns, **texts})


def is_end(message: Message) -> bool:
    """Whether this is no message, but says that its partition ends at its offset (`enable.partition.eof`). Raises
    KafkaException for any other fault."""
    fault = message.error()
    if fault is not None and fault.code() != Fault._PARTITION_EOF:
        raise KafkaException(fault)
    return fault is not None


def _headers(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """For each message its headers by name; the first one if several have the same name."""
    last: Any = None
    by_name: dict[str, Any] = {}
    for message in messages:
        given: Any = message.headers()  # in the client's types also a dictionary
        if given != last:  # mostly they are those of the message before
            last, by_name = given, dict(reversed(given or ()))
        yield by_name


def _microseconds(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE and abs(milliseconds) <= _MOST_MILLISECONDS
    return milliseconds * 1000 if known else None


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
