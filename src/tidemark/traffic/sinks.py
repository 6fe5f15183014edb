"""Sinks of generated lines: a file at full speed, or Kafka on schedule."""

from __future__ import annotations

import errno
import gzip
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from tidemark.errors import InputError, KafkaError
from tidemark.settings.sections import KafkaSettings
from tidemark.traffic.shapes import COLUMNS, NAMED
from tidemark.traffic.stream import DEFAULT_SITE, Block, Traffic

if TYPE_CHECKING:
    from confluent_kafka import Producer

_FLUSH_SECONDS = 30.0
_READER_SECONDS = 0.1

Taken = Callable[[Block, float], None]
"""Called with each block after its lines were sent, and their delay behind the schedule in seconds."""


Settled = Callable[[], None]
"""Called about every second, when all lines so far are acknowledged."""

_SETTLE_SECONDS = 1.0


def _ignore(_block: Block, _behind: float) -> None:
    pass


def first_lines(format: str) -> bytes:
    """The comments at the beginning of a file of this format."""
    return f"#Version: 1.0\n#Fields: {COLUMNS[format]}\n".encode() if format in COLUMNS else b""


def headers_of(traffic: Traffic) -> list[tuple[str, bytes]]:
    """The headers of each record, without those that have their default."""
    said = {
        "site": "" if traffic.site == DEFAULT_SITE else traffic.site,
        "format": traffic.format if traffic.format in NAMED else "",
        "fields": COLUMNS.get(traffic.format, ""),
    }
    return [(name, value.encode()) for name, value in said.items() if value]


def write_file(
    blocks: Iterable[Block], path: Path, stop: Event, taken: Taken = _ignore, *, head: bytes = b""
) -> None:
    """Writes `head` and all lines to `path`, compressed if it ends in .gz; `-` is standard output.

    Ends early when `stop` is set. The same lines give the same file. Raises InputError.
    """
    try:
        with _opened(path, stop) as file:
            file.write(head)
            for block in blocks:
                if stop.is_set():
                    return
                file.write(b"\n".join(block.lines) + b"\n")
                taken(block, 0.0)
    except BrokenPipeError:
        # The reader of standard output has closed it, as `head` does. The buffered rest is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}", "Name a file that can be written."
        ) from error


@contextmanager
def _opened(path: Path, stop: Event) -> Iterator[BinaryIO | gzip.GzipFile]:
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with os.fdopen(_open_pipe(path, stop), "wb") if path.is_fifo() else path.open("wb") as raw:
        if path.suffix == ".gz":
            # Without name and time, so that equal lines make equal files.
            with gzip.GzipFile("", "wb", zlib.Z_BEST_SPEED, raw, mtime=0) as file:
                yield file
        else:
            yield raw


def _open_pipe(path: Path, stop: Event) -> int:
    """Waits for the reader of a named pipe; `open` alone would ignore `stop`."""
    while not stop.is_set():
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            stop.wait(_READER_SECONDS)
        else:
            os.set_blocking(fd, True)
            return fd
    return os.open(os.devnull, os.O_WRONLY)


def prepare(settings: KafkaSettings) -> None:
    """Returns when Kafka answers and the topic exists. Raises KafkaError."""
    from tidemark.kafka import client as kafka

    kafka.require_reachable(settings)
    kafka.ensure_topic(settings, settings.topic)


def send(
    parts: Iterable[tuple[Block, float]],
    settings: KafkaSettings,
    traffic: Traffic,
    stop: Event,
    taken: Taken = _ignore,
    settled: Settled | None = None,
) -> int:
    """Sends paced lines to the prepared topic, one record per line. Returns their number.

    Records have the headers that their site and their format need. The producer is idempotent: a retry
    writes no line twice. Returns when all are acknowledged. Raises KafkaError.
    """
    from confluent_kafka import Producer

    from tidemark.kafka import client as kafka

    failures: list[Any] = []
    producer = Producer(
        {
            **kafka.client_config(settings),
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.max.bytes": kafka.MAX_RECORD_BYTES,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failures.append(error),
        }
    )
    headers = headers_of(traffic)
    sent = 0
    due = time.monotonic() + _SETTLE_SECONDS
    for block, behind in parts:
        done = _produce(producer, settings.topic, block.lines, headers, stop)
        sent += done
        producer.poll(0)
        taken(block if done == len(block.lines) else block.part(0, done), behind)
        if failures:
            raise kafka.kafka_error(settings, failures[0])
        if settled and time.monotonic() >= due and not producer.flush(_FLUSH_SECONDS):
            settled()
            due = time.monotonic() + _SETTLE_SECONDS
    left = producer.flush(_FLUSH_SECONDS)
    if failures:
        raise kafka.kafka_error(settings, failures[0])
    if left:
        raise KafkaError(f"{left:,} lines were not acknowledged by Kafka", "Look at the broker's log.")
    return sent


def _produce(producer: Producer, topic: str, lines: list[bytes], headers: list[Any], stop: Event) -> int:
    """Queues lines, waiting while the queue is full. Returns their number, which is smaller after a stop."""
    for number, line in enumerate(lines):
        while True:
            try:
                producer.produce(topic, line, headers=headers)
                break
            except BufferError:
                if stop.is_set():
                    return number
                producer.poll(0.1)
    return len(lines)
