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
from tidemark.settings import Settings, with_tables_of_now

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
    files = _Files(settings)
    turns: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
    while True:
        changes: list[Settings] = []

        def add(
            sides: Sequence[Side], busy: Callable[[], bool], changes: list[Settings] = changes
        ) -> list[Side]:
            def changed() -> bool:
                changes.extend(files.changed(busy))
                return bool(changes)

            own = [_in_turn(turns[n], side) for n, side in enumerate(sides)]
            return [*own, stopping_when(changed, poll_seconds)]

        if run(files.settings, add) or not changes:
            return
        log.info("settings or data have changed: the flows begin again with them (%s)", files.path)


@dataclass
class _Files:
    """The settings in use, and their files: the settings file, own formats, and data."""

    settings: Settings
    seen: _Stamp = field(init=False)
    data: _Stamp = field(init=False)

    def __post_init__(self) -> None:
        self.seen, self.data = self._stamp(), self._data_stamp()

    @property
    def path(self) -> Path:
        return self.settings.home / "tidemark.toml"

    def changed(self, busy: Callable[[], bool]) -> Sequence[Settings]:
        """The new settings if their tables or the data have changed; wrong ones are logged, and those in use stay."""
        stamp, data = self._stamp(), self._data_stamp()
        if (stamp, data) == (self.seen, self.data) or busy():
            return ()
        is_same_data = data == self.data
        self.seen, self.data = stamp, data
        try:
            settings = with_tables_of_now(self.settings)
            reading_of(settings)
        except (SettingError, InputError) as error:
            log.error("the settings in use stay: %s", error)
            return ()
        if settings == self.settings and is_same_data:
            return ()
        self.settings = settings
        return (settings,)

    def _stamp(self) -> _Stamp:
        return _stamps([self.path, *sorted(self.settings.formats_directory.glob("*.toml"))])

    def _data_stamp(self) -> _Stamp:
        robots = [self.settings.home / site.robots for site in self.settings.sites.values() if site.robots]
        return _stamps([*sorted(self.settings.data.rglob("*")), *robots])


def _stamps(paths: Sequence[Path]) -> _Stamp:
    stamps = []
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            stamps.append((path.name, status.st_mtime_ns, status.st_ino))
    return stamps


def _in_turn(turn: threading.Lock, side: Side) -> Side:
    """The same side of the round before may still be ending its last piece of work."""

    def run(stopping: threading.Event) -> None:
        with turn:
            if not stopping.is_set():
                side(stopping)

    return run
