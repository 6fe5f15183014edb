"""Lines of many objects in one transaction, and two imports that take turns at one bucket."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from tidemark.importing.file_import import BATCH_BYTES, BATCH_LINES, Batch, Report
from tidemark.importing.identity import Entry
from tidemark.importing.producer import OvertakenError, Part, Sender
from tidemark.importing.progress import Progress
from tidemark.objects.listing import Listed

_MOST_PARTS = 1000
_SECONDS = 1.0
_TURN_SECONDS = 0.2
_MOST_ATTEMPTS = 100


class LostError(Exception):
    """Another import has continued an object in its middle."""


class ObjectGroup:
    """Collects batches of objects until a transaction takes them.

    Imports of one bucket use one transactional id. The one that sends fences the other, which then compares the
    progress: it drops the objects that the other has committed in the meantime. `lost` has these by the ids of their
    entries; they have to be looked at again.
    """

    def __init__(self, sender: Sender, progress: Progress, report: Report) -> None:
        self.lost: dict[str, Listed] = {}
        self._sender = sender
        self._progress = progress
        self._report = report
        self._parts: list[Part] = []
        self._size = 0
        self._records = 0
        self._since = time.monotonic()
        # The objects in this group, and the entries that Kafka has of them as far as this import knows.
        self._bases: dict[str, tuple[Entry | None, Listed]] = {}

    def begin(self, entry_id: str, base: Entry | None, version: Listed) -> None:
        """Begins an object of which Kafka has `base`."""
        self._bases[entry_id] = base, version

    def add(self, batch: Batch, entry: Entry) -> None:
        """Takes a batch of the object that was begun last. Raises LostError, KafkaError."""
        if entry.id in self.lost:
            raise LostError
        if not self._parts:
            self._since = time.monotonic()
        self._parts.append((batch, entry))
        self._size += batch.size
        self._records += batch.records
        if self._size >= BATCH_BYTES or self._records >= BATCH_LINES:
            self.flush()

    def finish(self, entry_id: str, etag: str, entry: Callable[[], Entry]) -> None:
        """Ends the object that was begun last: all lines of this version of it were added. `entry` has them, if no
        batch has added one. Raises LostError, KafkaError."""
        if self._parts and self._parts[-1][1].id == entry_id:
            batch, last = self._parts[-1]
            self._parts[-1] = batch, replace(last, etag=etag)
        else:
            whole = replace(entry(), etag=etag)
            self.add(Batch(whole), whole)
        if len(self._parts) >= _MOST_PARTS or time.monotonic() - self._since >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Commits what was collected. Raises KafkaError."""
        attempts = 0
        while self._parts:
            try:
                self._sender.send_together(self._parts)
            except OvertakenError:
                attempts += 1
                if attempts == _MOST_ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, _TURN_SECONDS))
                self._sender.reconnect()
                self._drop_lost()
                continue
            for batch, entry in self._parts:
                self._progress.entries[entry.id] = entry
                self._report.added += lines_of(entry) - lines_of(batch.before)
            last = self._parts[-1][1]
            self._parts, self._bases = [], {last.id: (last, self._bases[last.id][1])}
        self._size = self._records = 0

    def _drop_lost(self) -> None:
        entries = self._progress.entries
        self.lost |= {id: version for id, (base, version) in self._bases.items() if entries.get(id) != base}
        self._parts = [part for part in self._parts if part[1].id not in self.lost]


def lines_of(entry: Entry | None) -> int:
    """The lines of an entry without comments."""
    return entry.lines - entry.comments if entry else 0
