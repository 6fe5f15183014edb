"""The batches of a run that reads files without Kafka: each is recorded before its first commit, and once it is done.

A kill may come at any time. The next process reads the lines of the recorded batches again, gives them the same numbers
and offsets, and goes on after them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark.errors import InputError
from tidemark.importing.identity import Entry, has_grown_last_line, recognise
from tidemark.local.records import replace_text

# The journal of a home.
NAME = "batches.jsonl"


@dataclass(frozen=True)
class Part:
    """Consecutive records of one file: those that `after` has and `before` (None: the beginning) has not."""

    path: str
    before: Entry | None
    after: Entry
    records: int


@dataclass(frozen=True)
class Planned:
    """A batch: its number, the offset of its first record, when its lines arrived, the newest event time that each site
    had then, and its parts in their order."""

    number: int
    first: int
    arrived: datetime
    newest: Mapping[str, datetime]
    parts: tuple[Part, ...]

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)


@dataclass
class Journal:
    """The journal at `path`, which has one writer. `entries` are those after all recorded batches, by id; `unfinished`
    are the batches that are not done, in their order; `number` and `offset` those of the next batch."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    unfinished: list[Planned] = field(default_factory=list)
    number: int = 0
    offset: int = 0

    @classmethod
    def read(cls, path: Path) -> Journal:
        """The journal as it is; an empty one where there is none. Raises ValueError if it cannot be read."""
        journal = cls(path)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # A kill may have left the last line unfinished: what it records has not begun.
        for line in text.split("\n")[:-1]:
            journal._take(json.loads(line))
        return journal

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The same, for its writer: without what is no longer needed. Raises as `read`."""
        journal = cls.read(path)
        state = {
            "entries": [asdict(entry) for entry in journal.entries.values()],
            "number": journal.number,
            "offset": journal.offset,
        }
        text = "".join(map(_line, [*map(_record, journal.unfinished), state]))
        replace_text(path, text, durable=True)
        return journal

    def plan(self, batch: Planned) -> None:
        """Records a batch, durably, before anything of it is committed."""
        self._append(_record(batch))

    def done(self, number: int) -> None:
        """Records that all tables have the batch."""
        self._append({"done": number})

    def _append(self, record: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())
        self._take(record)

    def _take(self, record: Mapping[str, Any]) -> None:
        if "done" in record:
            self.unfinished = [batch for batch in self.unfinished if batch.number != record["done"]]
        elif "parts" in record:
            batch = _planned(record)
            self.unfinished.append(batch)
            self.entries |= {part.after.id: part.after for part in batch.parts}
            self.number, self.offset = batch.number + 1, batch.first + batch.records
        else:
            self.entries = {each["id"]: Entry(**each) for each in record["entries"]}
            self.number, self.offset = record["number"], record["offset"]


def known_bytes(paths: Sequence[str], directory: Path) -> int | None:
    """How many bytes of these files the tables with the journal in a directory have; None if they have other lines."""
    try:
        entries = list(Journal.read(directory / NAME).entries.values())
    except (ValueError, LookupError, TypeError):
        return None
    held = all(any(_has(path, entry) for path in paths) for entry in entries)
    return sum(entry.offset for entry in entries) if held else None


def _has(path: str, entry: Entry) -> bool:
    try:
        return recognise(path, [entry]).kind == "same" and not has_grown_last_line(path, entry)
    except InputError:
        return False


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _record(batch: Planned) -> dict[str, Any]:
    return asdict(batch) | {
        "arrived": batch.arrived.isoformat(),
        "newest": {site: moment.isoformat() for site, moment in batch.newest.items()},
    }


def _planned(record: Mapping[str, Any]) -> Planned:
    return Planned(
        number=record["number"],
        first=record["first"],
        arrived=datetime.fromisoformat(record["arrived"]),
        newest={site: datetime.fromisoformat(moment) for site, moment in record["newest"].items()},
        parts=tuple(
            Part(
                path=part["path"],
                before=Entry(**part["before"]) if part["before"] else None,
                after=Entry(**part["after"]),
                records=part["records"],
            )
            for part in record["parts"]
        ),
    )
