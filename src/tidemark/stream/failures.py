"""Explains a failed query to the user: problem and remedy."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from tidemark.errors import KafkaError, PlatformError, TableError, TidemarkError
from tidemark.kafka import client as kafka
from tidemark.settings import Settings

# Texts in the chain of causes -> (class, problem, remedy); the first match counts.
_KNOWN: tuple[tuple[tuple[str, ...], type[TidemarkError], str, str], ...] = (
    (
        ("No space left on device",), PlatformError, "the disk is full",
        "Free space and start again: nothing is lost, the batch is run again.",
    ),
    (
        ("failOnDataLoss", "KAFKA_DATA_LOSS"), KafkaError, "Kafka no longer has lines that were not read yet",
        "Restore the topic, or accept the loss with TIDEMARK_ALLOW_DATA_LOSS=true.",
    ),
    (
        ("UnknownTopicOrPartition",), KafkaError, "topic {settings.kafka.topic!r} does not exist any more",
        "Restore it, or see docs/operations.md, 'Another topic'.",
    ),
    (
        ("TimeoutException",), KafkaError, "Kafka did not answer in time",
        "Check that it runs (`tidemark broker status`), then start again: nothing is lost.",
    ),
    (
        ("overflows when converting to Spark's microsecond-precision",), KafkaError,
        "a record's timestamp is beyond what Spark can read",
        "Have the producer write milliseconds; the full trace names the record.",
    ),
    (
        ("SaslAuthenticationException",), KafkaError, "Kafka refused the credentials",
        "Correct TIDEMARK_KAFKA_USERNAME and TIDEMARK_KAFKA_PASSWORD.",
    ),
    (
        ("MALFORMED_LOG_FILE", "Incomplete log file"), TableError, "the checkpoint is damaged",
        "Restore a savepoint, or see docs/operations.md, 'A damaged checkpoint'.",
    ),
)  # fmt: skip

_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\S*\] Encountered error while reading file (\S+?)\.?\s")


def explain(flow: str, failure: BaseException, settings: Settings) -> TidemarkError:
    """The error to show for a query that failed. The full trace goes to the log file."""
    if isinstance(failure, TidemarkError):
        return failure
    text = "".join(traceback.format_exception(failure))
    trace = _kept(text, settings.logs / f"{flow}-failure.log")
    for marks, kind, problem, remedy in _KNOWN:
        if any(mark in text for mark in marks):
            return kind(f"flow {flow} stopped: {problem.format(settings=settings)}", remedy)
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        return TableError(
            f"flow {flow} stopped: {unreadable[1]} cannot be read",
            "See docs/operations.md, 'A damaged table'.",
        )
    try:
        kafka.require_reachable(settings.kafka, timeout=3)
    except KafkaError as error:
        return error
    first = next((line for line in str(failure).splitlines() if line.strip()), "")
    return TableError(
        f"flow {flow} stopped: {type(failure).__name__}: {first[:300]}",
        f"{trace}; nothing is lost, start again.",
    )


def _kept(text: str, path: Path) -> str:
    """Writes the trace to a file and returns its path; an error in doing so must not hide the failure."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        return f"The full trace could not be written to {path}: {error.strerror}"
    return f"The full trace is in {path}"
