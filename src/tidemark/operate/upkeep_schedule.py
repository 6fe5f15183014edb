"""Upkeep beside the flows: at intervals, in a process of its own with a lower priority."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tidemark.home import Home
from tidemark.loops import Side, every
from tidemark.operate.background import in_background
from tidemark.operate.retention import retention_days
from tidemark.operate.upkeep import maintain

log = logging.getLogger("tidemark.operate.upkeep")

# Upkeep has a lower priority than the flows, but a higher one than quality. Batches wait while it holds
# `lock.at_rest`, and without privileges a process cannot raise its priority for that time. If other programs want the
# whole CPU, a process with nice 19 gets 1.5% of a core and one with 10 gets 10%. That is also enough for upkeep to
# keep up with a long drain.
_NICE = 10


def keep(home: Home, ended: Callable[[str], None] = lambda trouble: None) -> Side:
    """A function that maintains the home's tables at intervals until its event is set, in a process of its own.

    A failure is logged, and the next run tries again; it never stops the flows. `ended` is called after each run with
    the error, empty for success. Raises SettingError at once for an invalid retention.
    """
    settings = home.settings
    retention_days(settings.upkeep.retention_days, home.tables)
    whole = settings.upkeep.maintain_interval_seconds
    hot = min(settings.upkeep.vacuum_interval_seconds or whole, whole)
    load = partial(_upkeep_of, home.plain)

    def run(stopping: threading.Event) -> None:
        if whole:
            with in_background("upkeep", _NICE, settings.watching, load) as upkeep:
                every(hot, _Turns(upkeep, whole), "upkeep", log, ended)(stopping)

    return run


@dataclass
class _Turns:
    """Calls `upkeep` for all of it after every `seconds`, and in between for what is quick."""

    upkeep: Callable[[bool], None]
    seconds: float
    due: float = field(init=False)

    def __post_init__(self) -> None:
        self.due = time.monotonic() + self.seconds

    def __call__(self) -> None:
        hot_only = time.monotonic() < self.due
        try:
            self.upkeep(hot_only)
        finally:
            if not hot_only:
                self.due = time.monotonic() + self.seconds


def _upkeep_of(home: Home) -> Callable[[bool], None]:
    def upkeep(hot_only: bool) -> None:
        maintain(home, hot_only=hot_only)

    return upkeep
