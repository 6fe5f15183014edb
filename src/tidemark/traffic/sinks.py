"""Where generated lines go: a file at full speed, or Kafka at the pace of the clock."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from tidemark.errors import InputError, KafkaError
from tidemark.settings import Settings
from tidemark.traffic.stream import Block

if TYPE_CHECKING:
    from confluent_kafka import Producer

_FLUSH_SECONDS = 30.0

Progress = Callable[[int], None]
"""Told after each block how many lines it had."""


def write_file(
    blocks: Iterable[Block], path: Path, stop: Event, progress: Progress = lambda lines: None
) -> None:
    """Write all lines to `path`, compressed if it ends in .gz; `-` is standard output.

    Ends early when `stop` is set. The same lines give the same file. Raises InputError.
    """
    try:
        with _opened(path) as file:
            for block in blocks:
                file.write(b"\n".join(block.lines) + b"\n")
                progress(len(block.lines))
                if stop.is_set():
                    return
    except BrokenPipeError:
        # The reader of standard output has had enough, as `head` does; what is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}", "Name a file that can be written."
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif path.suffix == ".gz":
        # No name and no time inside, so that equal lines make equal files.
        with path.open("wb") as raw, gzip.GzipFile("", "wb", zlib.Z_BEST_SPEED, raw, mtime=0) as file:
            yield file
    else:
        with path.open("wb") as file:
            yield file


def send(
    slices: Iterable[tuple[list[bytes], float]],
    settings: Settings,
    site: str,
    stop: Event,
    progress: Callable[[int, float], None] = lambda lines, behind: None,
) -> int:
    """Send paced lines to the topic, each as one record with the header `site`; returns how many.

    The producer is idempotent: a retry writes no line twice. `progress` hears of each slice its size
    and how many seconds it is behind. Returns when all are acknowledged. Raises KafkaError.
    """
    from confluent_kafka import Producer

    from tidemark import kafka

    kafka.require_reachable(settings)
    kafka.ensure_topic(settings, settings.topic)
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
    headers: list[tuple[str, str | bytes | None]] = [("site", site.encode())]
    sent = 0
    for lines, behind in slices:
        for line in lines:
            if not _produce(producer, settings.topic, line, headers, stop):
                break
            sent += 1
        producer.poll(0)
        progress(len(lines), behind)
        if failures:
            raise kafka.kafka_error(settings, failures[0])
    left = producer.flush(_FLUSH_SECONDS)
    if failures:
        raise kafka.kafka_error(settings, failures[0])
    if left:
        raise KafkaError(f"{left:,} lines were not acknowledged by Kafka", "Look at the broker's log.")
    return sent


def _produce(producer: Producer, topic: str, line: bytes, headers: list[Any], stop: Event) -> bool:
    """Hand over one line, waiting while the queue is full; False if told to stop meanwhile."""
    while True:
        try:
            producer.produce(topic, line, headers=headers)
            return True
        except BufferError:
            if stop.is_set():
                return False
            producer.poll(0.1)
