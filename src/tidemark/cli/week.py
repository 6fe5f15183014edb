"""The demo's traffic before and while it runs: loads the week of past traffic once, and records what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemark.importing.file_import import Batch
from tidemark.importing.identity import Entry
from tidemark.importing.importer import open_progress, transactional_id
from tidemark.importing.lines import Block
from tidemark.importing.producer import Sender
from tidemark.kafka import client as kafka
from tidemark.local.records import write_record
from tidemark.settings import Settings
from tidemark.settings.sections import KafkaSettings
from tidemark.traffic.stream import DEFAULT_SITE, Outcome
from tidemark.traffic.truth import Tally
from tidemark.traffic.week import Week, week_blocks

RECORD = "traffic-sent.json"
# The demo's parts start at the same time as its broker.
START_SECONDS = 60.0
_ENTRY = "demo-week"


def load_week(
    settings: KafkaSettings,
    *,
    lines: int = Week.lines,
    taken: Callable[[list[Outcome]], None] = lambda outcomes: None,
    say: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Week | None:
    """Sends the week before now to the topic, in one transaction with the note that it is there. A topic gets it once,
    however often this is called or killed, and only if it was empty before the first call.

    Returns the week if this call has sent it. `taken` gets the outcomes of its lines. Raises KafkaError.
    """
    progress = open_progress(settings)
    try:
        if _ENTRY not in progress.entries and any(
            kafka.end_offsets(settings, settings.topic, committed=False).values()
        ):
            return None
        name = transactional_id(settings.topic, DEFAULT_SITE, _ENTRY.encode())
        sender = Sender(settings, progress, name, [], say=say, stopped=stopped)
        try:
            # As of now: an earlier sender can no longer commit anything.
            if _ENTRY not in progress.entries:
                sender.send(Batch(), _entry(Batch()))
            elif progress.entries[_ENTRY].lines:
                return None
            week, batch = Week(int(time.time()), lines), Batch()
            for block in week_blocks(week):
                if stopped():
                    return None
                # One line after the other, so that all partitions are at the same time of the week.
                for line in block.lines:
                    batch.add(Block([line], size=len(line) + 1))
                taken(block.outcomes)
            sender.send(batch, _entry(batch))
        finally:
            sender.close()
    finally:
        progress.close()
    kafka.await_committed(settings, settings.topic)
    return week


def _entry(batch: Batch) -> Entry:
    """The note that these lines are in the topic. Like that of a stream it is never taken for a file's."""
    return Entry(
        _ENTRY,
        DEFAULT_SITE,
        "the demo's week",
        batch.size,
        batch.records,
        prefix_length=0,
        prefix_sha256="",
        tail_sha256="",
        chunk=0,
        unended=False,
    )


@dataclass
class Sent:
    """Records in the home what this process has sent: between which offsets of the topic, and its expected outcome.
    Waits for Kafka first, see START_SECONDS.

    Other processes may write to the topic meanwhile, but not lines of the same site."""

    settings: Settings
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        kafka.require_reachable(self.settings.kafka, START_SECONDS)
        kafka.ensure_topic(self.settings.kafka, self.settings.kafka.topic)
        self._admin = kafka.admin_client(self.settings.kafka)
        self._from = self._ends()

    def load_week(self, taken: Callable[[list[Outcome]], None], stopped: Callable[[], bool]) -> None:
        """Loads the week of past traffic, see above."""
        load_week(self.settings.kafka, taken=taken, stopped=stopped)
        self.record()

    def record(self) -> None:
        """Call it when all lines so far are acknowledged."""
        facts: dict[str, Any] = {"from": self._from, "to": self._ends(), **asdict(self.tally)}
        write_record(self.settings.run_directory / RECORD, **facts)

    def _ends(self) -> dict[int, int]:
        topic = self.settings.kafka.topic
        return kafka.end_offsets(self.settings.kafka, topic, committed=False, admin=self._admin)
