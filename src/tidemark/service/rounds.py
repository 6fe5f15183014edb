"""The flows in rounds: when tables of the settings file, or files of own formats change, they end between two batches
and begin again with them.

So goals, alerts, own formats and settings of sites apply to a running pipeline. Other settings apply at its next start.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.errors import SettingError
from tidemark.loops import Side, stopping_when
from tidemark.parse.custom import reading_of
from tidemark.settings import Settings, Tables, tables_in

log = logging.getLogger("tidemark.run")

# Adds what ends a round to the functions that run beside it. A changed file waits while the round is busy.
Add = Callable[[Sequence[Side], Callable[[], bool]], list[Side]]


def run_in_rounds(
    settings: Settings, run: Callable[[Settings, Add], bool], poll_seconds: float = 1.0
) -> None:
    """Calls `run` with the settings until it returns that it was the last time. It gets a function that completes the
    sides of its round."""
    file = _File(settings.home / "tidemark.toml", settings.formats_directory, Tables.of(settings))
    turns: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
    while True:
        changes: list[Tables] = []

        def add(
            sides: Sequence[Side], busy: Callable[[], bool], changes: list[Tables] = changes
        ) -> list[Side]:
            def changed() -> bool:
                tables = file.changed(busy)
                changes.extend([tables] if tables is not None else [])
                return tables is not None

            own = [_in_turn(turns[n], side) for n, side in enumerate(sides)]
            return [*own, stopping_when(changed, poll_seconds)]

        if run(settings, add) or not changes:
            return
        log.info("%s has changed: the flows begin again with its tables", file.path)
        settings = changes[-1].put_into(settings)


@dataclass
class _File:
    """The settings file and the directory of own formats, and their tables as they are in use."""

    path: Path
    formats: Path
    tables: Tables
    seen: Sequence[tuple[str, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = self._stamp()

    def changed(self, busy: Callable[[], bool]) -> Tables | None:
        """The tables, if they have changed. Wrong ones are logged, and those in use stay."""
        stamp = self._stamp()
        if stamp == self.seen or busy():
            return None
        self.seen = stamp
        try:
            found = tables_in(self.path, self.formats)
            reading_of(found.put_into(Settings()))
        except SettingError as error:
            log.error("the settings in use stay: %s", error)
            return None
        if found == self.tables:
            return None
        self.tables = found
        return found

    def _stamp(self) -> Sequence[tuple[str, int, int]]:
        stamps = []
        for path in (self.path, *sorted(self.formats.glob("*.toml"))):
            with suppress(OSError):
                found = path.stat()
                stamps.append((path.name, found.st_mtime_ns, found.st_ino))
        return stamps


def _in_turn(turn: threading.Lock, side: Side) -> Side:
    """The same side of the round before may still be ending its last piece of work."""

    def run(stopping: threading.Event) -> None:
        with turn:
            if not stopping.is_set():
                side(stopping)

    return run
