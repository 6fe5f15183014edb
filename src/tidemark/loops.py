"""Work in threads beside other work, until an event is set."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidemark.errors import first_line

# Works until its event is set.
Side = Callable[[threading.Event], None]


def every(
    seconds: float,
    work: Callable[[], object],
    name: str,
    log: logging.Logger,
    ended: Callable[[str], None] = lambda trouble: None,
) -> Side:
    """A function that calls `work` after each `seconds` until its event is set, and then `ended` with why the work
    failed, empty if it did not. A failure is logged, and does not end the loop."""

    def run(stopping: threading.Event) -> None:
        while not stopping.wait(seconds):
            ended(attempted(work, name, log))

    return run


def attempted(work: Callable[[], object], name: str, log: logging.Logger) -> str:
    """Calls `work`. Logs and returns why it failed, empty if it did not."""
    try:
        work()
    except Exception as error:  # it must not stop what it runs beside
        log.error("%s failed, the next one tries again: %s", name, first_line(error))
        return first_line(error)
    return ""


def stopping_when(condition: Callable[[], bool], seconds: float) -> Side:
    """A function that sets its event once `condition` holds, which is asked every `seconds`."""

    def run(stopping: threading.Event) -> None:
        while not stopping.wait(seconds):
            if condition():
                stopping.set()

    return run
