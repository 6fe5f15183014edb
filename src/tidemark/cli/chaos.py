"""`tidemark demo --chaos`: kills the pipeline again and again, and compares the tables with what was generated."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from tidemark.cli.week import RECORD
from tidemark.figures.reader_delta import execute
from tidemark.local.records import live_record, read_record
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.traffic.stream import DEFAULT_SITE

START_SECONDS = 120.0
CHECK_SECONDS = 60.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Counts:
    """Numbers of the generated lines: as expected, or as they are in the tables."""

    accepted: int
    rejected: int
    pageviews: int

    def __str__(self) -> str:
        return f"{self.accepted:,} accepted, {self.rejected:,} rejected, {self.pageviews:,} pageviews"

    @property
    def lines(self) -> int:
        return self.accepted + self.rejected


class Chaos:
    """A context in which the home's pipeline is killed every `every` seconds while it runs. After each restart the
    tables are compared with the generator's record. `news` returns new messages, one line each."""

    def __init__(self, settings: Settings, every: float) -> None:
        self._settings = settings
        self._every = every
        self._news: SimpleQueue[str] = SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self.kills = self.exact = self.wrong = 0

    def __enter__(self) -> Chaos:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def news(self) -> list[str]:
        """Messages since the last call."""
        messages: list[str] = []
        while True:
            try:
                messages.append(self._news.get_nowait())
            except Empty:
                return messages

    def summary(self) -> str:
        checked = self.exact + self.wrong
        return f"chaos: kills: {self.kills}; the counts were exact after {self.exact} of {checked} checked restarts"

    def _run(self) -> None:
        while self._wait(lambda: self._pipeline() is not None) and not self._stop.wait(self._every):
            pid = self._pipeline()
            if pid is None:  # it ended by itself
                continue
            self.kills += 1
            self._say("killing the pipeline with SIGKILL")
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            if not self._wait(lambda pid=pid: self._pipeline() not in (None, pid), START_SECONDS):  # type: ignore[misc]
                continue
            self._say(
                f"the pipeline is back after {time.monotonic() - killed:.0f} s, with what had waited in Kafka"
            )
            self._compare()

    def _compare(self) -> None:
        sent = read_record(self._settings.run_directory / RECORD)
        if not sent:
            return
        wanted = Counts(sent["accepted"], sent["rejected"], sent["pageviews"])
        counted: list[Counts | None] = [None]

        def decided() -> bool:
            counted[0] = counts(self._settings, sent)
            return counted[0] == wanted or (counted[0] is not None and counted[0].lines > wanted.lines)

        self._wait(decided, CHECK_SECONDS)
        if self._stop.is_set() and counted[0] != wanted:
            return
        if counted[0] == wanted:
            self.exact += 1
            self._say(f"{wanted.lines:,} lines were sent, all are in the tables, each once: {wanted}")
        else:
            self.wrong += 1
            self._say(
                f"WRONG: sent were {wanted}; the tables have {counted[0] or 'different counts'}"
                f" (lines that others send to the site {DEFAULT_SITE!r} meanwhile count as wrong)"
            )

    def _pipeline(self) -> int | None:
        """The pid of the pipeline, if it runs and has started."""
        record = live_record(self._settings.run_directory / "pipeline.json")
        return int(record["pid"]) if record and record.get("state") == "running" else None

    def _wait(self, until: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Whether the condition became true in time, before the end of the context."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline or self._stop.wait(_POLL_SECONDS):
                return False
        return not self._stop.is_set()

    def _say(self, text: str) -> None:
        self._news.put(f"chaos: kill {self.kills}: {text}")


def counts(settings: Settings, sent: Mapping[str, Any]) -> Counts | None:
    """The generator's lines in the tables, between the offsets of its record. None if a line is there twice, or if
    gold and silver differ, as they may for a moment between two commits."""
    among = " OR ".join(
        f'("partition" = {int(p)} AND "offset" >= {begin} AND "offset" < {sent["to"][p]})'
        for p, begin in sent["from"].items()
    )
    ours = f"site = '{DEFAULT_SITE}' AND ({among})"
    number = 'count(*), count(DISTINCT "offset" * 1000 + "partition")'
    viewed = "coalesce(sum(CASE WHEN pageview THEN 1 ELSE 0 END), 0)"
    try:
        accepted, once, pageviews = _row(settings, "silver.requests", f"{number}, {viewed}", ours)
        rejected, rejected_once = _row(settings, "silver.rejected", number, ours)
        silver = _row(settings, "silver.requests", f"count(*), {viewed}")
        sums = "coalesce(sum(requests), 0), coalesce(sum(pageviews), 0)"
        gold = _row(settings, "gold.visitors_by_country", sums)
    except (DeltaError, OSError, pa.ArrowException):  # not made yet, or replaced at this moment
        return None
    if accepted != once or rejected != rejected_once or gold != silver:
        return None
    return Counts(accepted, rejected, pageviews)


def _row(settings: Settings, table: str, columns: str, where: str = "true") -> list[int]:
    handle = lakehouse.of(settings).delta(table)
    query = f"SELECT {columns} FROM source WHERE {where}"
    row = execute(query, {"source": handle}).read_all()
    return [int(column[0].as_py()) for column in row.columns]
