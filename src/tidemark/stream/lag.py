"""Number of rows that wait for a flow, from its checkpoint and its source, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka.admin import AdminClient
from deltalake.exceptions import DeltaError

from tidemark.contract.table import Table
from tidemark.errors import TidemarkError
from tidemark.kafka import client as kafka
from tidemark.settings.sections import KafkaSettings
from tidemark.store import deltalog
from tidemark.store.lakehouse import Lakehouse


class TopicLag:
    """Offsets of the topic that are not in a committed batch yet; None if unknown."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        # One permanent client, because each has its own threads and connections. It connects on first use.
        self._admin: AdminClient | None = None

    def __call__(self, checkpoint: Path) -> int | None:
        topic = self._settings.topic
        try:
            if self._admin is None:
                self._admin = kafka.admin_client(self._settings)
            ends = kafka.end_offsets(self._settings, topic, admin=self._admin)
            done: dict[str, int] = committed_offset(checkpoint).get(topic, {})
            return sum(max(end - done.get(str(partition), 0), 0) for partition, end in ends.items())
        except (OSError, ValueError, LookupError, TidemarkError):
            return None


def topic_rows(topic: str, checkpoint: Path, number: int) -> int | None:
    """Number of offsets of batch `number`, as planned in its checkpoint; None if unknown.

    At least the batch's rows, because some offsets are marks of transactions.
    """
    ranges = topic_ranges(topic, checkpoint, number)
    return None if ranges is None else sum(end - start for start, end in ranges.values())


def topic_ranges(topic: str, checkpoint: Path, number: int) -> dict[int, tuple[int, int]] | None:
    """By partition, the first offset of batch `number` and the one after its last, as planned in its checkpoint; None
    if unknown, or if the topic is another one that ends before. A partition that was added later begins with 0: Spark
    regards all else as lost."""
    try:
        ends: dict[str, int] = offset_of(checkpoint, number)[topic]
        starts: dict[str, int] = (
            offset_of(checkpoint, number - 1) if number else _first_offsets(checkpoint)
        )[topic]
        ranges = {int(partition): (starts.get(partition, 0), end) for partition, end in ends.items()}
        return ranges if all(start <= end for start, end in ranges.values()) else None
    except (OSError, ValueError, LookupError):
        return None


def _first_offsets(checkpoint: Path) -> dict[str, Any]:
    """The offsets at which Spark's source of the topic began."""
    # A zero byte precedes the version, for the sake of Spark 2.1.
    text = (checkpoint / "sources" / "0" / "0").read_text(encoding="utf-8").lstrip("\0")
    offset: dict[str, Any] = json.loads(text.partition("\n")[2])
    return offset


def table_lag(rows_since: Callable[[int], int | None], checkpoint: Path) -> int | None:
    """Rows of a table that are not in a batch yet; `rows_since` returns the rows added by commits from a version on."""
    try:
        return rows_since(int(committed_offset(checkpoint).get("reservoirVersion", 0)))
    except (OSError, ValueError, LookupError, TidemarkError):
        return None


def table_rows(lakehouse: Lakehouse, table: Table, checkpoint: Path, number: int) -> int | None:
    """Rows of a table in the versions of batch `number`, at least the batch's rows; None if unknown."""
    if lakehouse.can.files is None:
        return None
    try:
        end = offset_of(checkpoint, number)
        start = offset_of(checkpoint, number - 1) if number else None
        done = int(start["index"]) + 1 if start else 0
        if end.get("isStartingVersion"):
            return _most_rows(lakehouse, table, int(end["reservoirVersion"]), done, int(end["index"]) + 1)
        rows, first = 0, int(start["reservoirVersion"]) if start else 0
        if start and start.get("isStartingVersion"):
            rows, first = _most_rows(lakehouse, table, first, done), first + 1
        # A version that a batch takes only partly counts as a whole.
        last = int(end["reservoirVersion"]) - (1 if int(end["index"]) < 0 else 0)
        log = lakehouse.log(table)
        return rows + sum(
            deltalog.rows_added(deltalog.actions(log, version)) for version in range(first, last + 1)
        )
    except (OSError, ValueError, LookupError, TypeError, DeltaError):
        return None


def _most_rows(lakehouse: Lakehouse, table: Table, version: int, done: int, upto: int | None = None) -> int:
    """The maximum rows of the files numbered `done` to `upto` - 1 of a version. Spark's numbering of files is
    unknown, so this counts the same number of the largest files."""
    files = lakehouse.delta(table, version).get_add_actions(flatten=True)
    sizes = sorted(map(int, pa.table(files)["num_records"].to_pylist()), reverse=True)
    return sum(sizes[: len(sizes[done:upto])])


def committed_offset(checkpoint: Path) -> dict[str, Any]:
    """The source's end offset after the last committed batch, from Spark's checkpoint; {} before it."""
    done = deltalog.last_batch(checkpoint)
    return offset_of(checkpoint, done) if done >= 0 else {}


def offset_of(checkpoint: Path, number: int) -> dict[str, Any]:
    """The source's end offset of a batch."""
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    offset = json.loads(lines[2])
    if not isinstance(offset, dict):
        raise ValueError(f"checkpoint {checkpoint} holds no offset: {lines[2]!r}")
    return offset
