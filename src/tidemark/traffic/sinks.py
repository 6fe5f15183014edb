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
from typing import BinaryIO

from tidemark.errors import InputError
from tidemark.settings.sections import KafkaSettings
from tidemark.traffic.stream import DEFAULT_SITE, Block, Traffic

_READER_SECONDS = 0.1

Taken = Callable[[Block, float], None]
"""Called with each block after its lines were sent, and their delay behind the schedule in seconds."""


Settled = Callable[[], None]
"""Called about every second, when all lines so far are acknowledged."""

_SETTLE_SECONDS = 1.0


def _ignore(_block: Block, _behind: float) -> None:
    pass


def first_lines(traffic: Traffic) -> bytes:
    """The comments at the beginning of a file of its lines."""
    names = traffic.logged.column_names
    return f"#Version: 1.0\n#Fields: {names}\n".encode() if names else b""


def headers_of(traffic: Traffic) -> list[tuple[str, bytes]]:
    """The headers of each record, without those that have their default."""
    format = traffic.logged
    texts = {
        "site": "" if traffic.site == DEFAULT_SITE else traffic.site,
        "format": traffic.format if format.named else "",
        "fields": format.column_names,
    }
    return [(name, value.encode()) for name, value in texts.items() if value]


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
    from tidemark.kafka.sending import Sender

    sender, headers = Sender(settings, "lines"), headers_of(traffic)
    sent = 0
    due = time.monotonic() + _SETTLE_SECONDS
    for block, behind in parts:
        done = 0
        for line in block.lines:
            if not sender.send(settings.topic, line, headers=headers, stopped=stop.is_set):
                break
            done += 1
        sent += done
        sender.poll()
        taken(block if done == len(block.lines) else block.part(0, done), behind)
        if settled and time.monotonic() >= due and not sender.flush():
            settled()
            due = time.monotonic() + _SETTLE_SECONDS
    sender.close()
    return sent
