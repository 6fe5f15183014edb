"""The moment as of which windows are evaluated: how far each site is, and that the tables have all lines before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from tidemark.contract.quality_tables import SITES
from tidemark.errors import TidemarkError
from tidemark.home import ACTIVITY, REQUESTS, Home
from tidemark.kafka import client as kafka
from tidemark.stream.accounting import MOST_AHEAD
from tidemark.stream.lag import committed_offset

# A window without newer lines is evaluated this long after its end.
SILENCE = timedelta(minutes=5)
# With a longer backlog only the lines say how far a site is.
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Span:
    """Event times of a site's lines: of the first and of the newest, and up to where windows have passed."""

    first: datetime
    newest: datetime
    reached: datetime


@dataclass(frozen=True)
class Moment:
    """All lines counted at `time` are in the tables; `sites` by name."""

    time: datetime
    sites: Mapping[str, Span]


def spans(rows: list[dict[str, Any]], clock: datetime | None) -> dict[str, Span]:
    """The spans of rows of quality.sites. A site has reached its newest line, which counts as at most MOST_AHEAD of its
    arrival, and the time SILENCE before `clock`, up to which nothing waits in Kafka (None: unknown)."""
    spans_by_site = {}
    for row in rows:
        first, newest = row["first_event_time"], row["newest_event_time"]
        if first is not None and newest is not None:
            arrived = row["newest_kafka_timestamp"]
            reached = row["reached_event_time"] or min(newest, arrived + MOST_AHEAD if arrived else newest)
            spans_by_site[row["site"]] = Span(
                first, newest, max(reached, clock - SILENCE) if clock else reached
            )
    return spans_by_site


class Moments:
    """Finds moments beside the running flows. Each step waits for the flows without blocking: first for the lines that
    Kafka has, then for the tables that follow the lines."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._settings = home.settings.kafka
        self._store = home.store
        self._admin: AdminClient | None = None
        self._steps: Callable[[], Moment | None] | None = None

    def look(self) -> Moment | None:
        """A new moment, None while the flows are on their way to it. Raises TidemarkError if Kafka does not answer or
        a table cannot be read."""
        step = self._steps or self._begin()
        self._steps = step
        moment = step()
        if moment is not None:
            self._steps = None
        return moment

    def _begin(self) -> Callable[[], Moment | None]:
        clock, started = datetime.now(UTC), time.monotonic()
        if self._admin is None:
            self._admin = kafka.admin_client(self._settings)
        ends = kafka.end_offsets(self._settings, self._settings.topic, admin=self._admin)
        sites: dict[str, Span] = {}
        version: int | None = None

        def step() -> Moment | None:
            nonlocal sites, version
            if version is None:
                done = self._has_read(ends)
                if not done and time.monotonic() - started < _PATIENCE_SECONDS:
                    return None
                sites = spans(self._store.read(SITES).to_pylist(), clock if done else None)
                version = self._store.version(self._home.graph.accepted)
            return Moment(clock, sites) if self._has_followed(version) else None

        return step

    def _has_read(self, ends: Mapping[int, int]) -> bool:
        done = _offset(self._home.checkpoint(REQUESTS)).get(self._settings.topic, {})
        return all(done.get(str(partition), 0) >= end for partition, end in ends.items())

    def _has_followed(self, version: int) -> bool:
        """Whether the second flow has all rows of a version of the table between."""
        offset = _offset(self._home.checkpoint(ACTIVITY))
        position = int(offset.get("reservoirVersion", 0))
        if offset.get("isStartingVersion"):
            return False
        try:
            return position > version or self._store.rows_since(self._home.graph.accepted, position) == 0
        except TidemarkError:
            return False


def _offset(checkpoint: Path) -> dict[str, Any]:
    try:
        return committed_offset(checkpoint)
    except (OSError, ValueError, LookupError):  # being written
        return {}
