"""The flows in rounds: when tables of the settings file, files of own formats, a robots.txt of a site, or data of the
home (`tidemark data update`) change, they end between two batches and begin again with them.

So goals, alerts, own formats, settings of sites and data about addresses apply to a running pipeline. Other settings
apply at its next start.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.errors import InputError, SettingError
from tidemark.loops import Side, stopping_when
from tidemark.parse.custom import reading_of
from tidemark.settings import Settings, Tables, tables_in

log = logging.getLogger("tidemark.run")

# Names of files, with what differs after a change.
_Stamp = Sequence[tuple[str, int, int]]
# Adds what ends a round to the functions that run beside it. A changed file waits while the round is busy.
Add = Callable[[Sequence[Side], Callable[[], bool]], list[Side]]


def run_in_rounds(
    settings: Settings, run: Callable[[Settings, Add], bool], poll_seconds: float = 1.0
) -> None:
    """Calls `run` with the settings until it returns that it was the last time. It gets a function that completes the
    sides of its round."""
    file = _File(settings, Tables.of(settings))
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
        log.info("settings or data have changed: the flows begin again with them (%s)", file.path)
        settings = changes[-1].put_into(settings)


@dataclass
class _File:
    """The settings file and the directory of own formats, their tables as they are in use, and the files of data."""

    settings: Settings
    tables: Tables
    seen: _Stamp = field(init=False)
    data: _Stamp = field(init=False)

    def __post_init__(self) -> None:
        self.seen, self.data = self._stamp(), self._data_stamp()

    @property
    def path(self) -> Path:
        return self.settings.home / "tidemark.toml"

    def changed(self, busy: Callable[[], bool]) -> Tables | None:
        """The tables, if they or the data have changed. Wrong ones are logged, and those in use stay."""
        stamp, data = self._stamp(), self._data_stamp()
        if (stamp, data) == (self.seen, self.data) or busy():
            return None
        is_same_data = data == self.data
        self.seen, self.data = stamp, data
        try:
            found = tables_in(self.path, self.settings.formats_directory)
            reading_of(found.put_into(self.settings))
        except (SettingError, InputError) as error:
            log.error("the settings in use stay: %s", error)
            return None
        if found == self.tables and is_same_data:
            return None
        self.tables = found
        return found

    def _stamp(self) -> _Stamp:
        return _stamps([self.path, *sorted(self.settings.formats_directory.glob("*.toml"))])

    def _data_stamp(self) -> _Stamp:
        robots = [self.settings.home / site.robots for site in self.tables.sites.values() if site.robots]
        return _stamps([*sorted(self.settings.data.rglob("*")), *robots])


def _stamps(paths: Sequence[Path]) -> _Stamp:
    stamps = []
    for path in paths:
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
