"""Alerts, reports by mail, reports of days and notes beside the flows, in one process with a lower priority.

`alerts` runs every few seconds where there are rules, and so does `mails` where there are reports to send. `reports`,
the figures of days, runs every few minutes; without the others its process ends after each run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from tidemark.errors import first_line
from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.background import in_background
from tidemark.operate.moment import Moment, Moments
from tidemark.stream import schema_check

log = logging.getLogger("tidemark.operate.observe")

ALERTS, REPORTS, MAILS = "alerts", "reports", "mails"
_NICE = 19
_ALERTS_SECONDS = 5.0
_REPORTS_SECONDS = 600.0
_FIRST_REPORT_SECONDS = 60.0
# A report waits so long for the flows to pass the lines that have arrived.
_PATIENCE_SECONDS = 60.0

# Told after each run of a task what went wrong, empty if nothing did.
Ended = Callable[[str, str], None]


@dataclass(frozen=True)
class Observed:
    """The home, the `rules_version` of new lines, and when the pipeline started."""

    home: Home
    rules_version: str
    started: datetime

    @property
    def plain(self) -> Observed:
        """The same, which can be sent to another process."""
        return replace(self, home=self.home.plain)


def beside(
    observed: Observed, ended: Ended = lambda task, trouble: None
) -> Callable[[threading.Event], None]:
    """A function that runs the tasks at their intervals until its event is set. A failure is logged and tried again;
    it never stops the flows."""

    def run(stopping: threading.Event) -> None:
        often = _often(observed.home)
        pause = _ALERTS_SECONDS if often else _FIRST_REPORT_SECONDS
        due = time.monotonic() + _FIRST_REPORT_SECONDS
        attempt = _Attempts(ended)
        with _lasting(observed) as open_process:
            while not stopping.wait(pause):
                with open_process() as task:
                    for name in often:
                        attempt(task, name)
                    if time.monotonic() >= due:
                        attempt(task, REPORTS)
                        due = time.monotonic() + _REPORTS_SECONDS
                pause = _ALERTS_SECONDS if often else _REPORTS_SECONDS

    return run


def once(observed: Observed) -> None:
    """Runs every task once, after the flows have caught up. A failure is logged."""
    attempt = _Attempts(lambda task, trouble: None)
    task = _tasks(observed)
    for name in (*_often(observed.home), REPORTS):
        attempt(task, name)


def _often(home: Home) -> tuple[str, ...]:
    """The tasks that run every few seconds."""
    wanted = {ALERTS: home.settings.alerts, MAILS: home.settings.reports}
    return tuple(name for name, declared in wanted.items() if declared)


class _Attempts:
    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._last: dict[str, str] = {}

    def __call__(self, task: Callable[[str], str], name: str) -> None:
        try:
            trouble = task(name)
        except Exception as error:  # the pipeline goes on
            trouble = first_line(error)
            if trouble != self._last.get(name):
                log.error("%s failed, the next run tries again: %s", name, trouble)
        self._last[name] = trouble
        self._ended(name, trouble)


Task = Callable[[str], str]


@contextmanager
def _lasting(observed: Observed) -> Iterator[Callable[[], AbstractContextManager[Task]]]:
    """A function that opens the process of the tasks: with frequent ones always the same, else one for each time."""
    home = observed.home
    if not home.store.can.files:
        task = _tasks(observed)
        yield lambda: nullcontext(task)
        return
    load = partial(_tasks, observed.plain)
    process = partial(in_background, "alerts", _NICE, home.settings.watching, load)
    if _often(home):
        with process() as same:
            yield lambda: nullcontext(same)
    else:
        yield process


def _tasks(observed: Observed) -> Task:
    """A function that runs a task and returns why it is not done, empty if it is. Raises TidemarkError."""
    tasks: dict[str, Callable[[], str]] = {}

    def run(name: str) -> str:
        if name not in tasks:
            make = {ALERTS: _alerts, MAILS: _mails, REPORTS: _reports}[name]
            tasks[name] = make(observed)
        return tasks[name]()

    return run


def _alerts(observed: Observed) -> Callable[[], str]:
    from tidemark.operate.alerts.watch import Watch  # only for homes with rules

    return Watch(observed.home).look


def _mails(observed: Observed) -> Callable[[], str]:
    from tidemark.operate.mails.watch import Mails  # only for homes with reports

    return Mails(observed.home).look


def _reports(observed: Observed) -> Callable[[], str]:
    from tidemark.operate.reported import Reports
    from tidemark.operate.retention import kept_from

    home = observed.home
    kept = partial(kept_from, home)
    reports, moments = Reports(home.settings, home.store, home.graph.by_name, kept), Moments(home)

    def report() -> str:
        _note_rules(observed)
        moment = _awaited(moments)
        if moment is not None:
            reports.report(moment)
        return ""

    return report


def _awaited(moments: Moments) -> Moment | None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while (moment := moments.look()) is None and time.monotonic() < until:
        time.sleep(0.5)
    return moment


def _note_rules(observed: Observed) -> None:
    """Notes another `rules_version` than that of the last batch before the pipeline's start."""
    home, accepted = observed.home, observed.home.graph.accepted
    before = notes.rules_before(home.store, accepted, observed.started)
    unapplied = schema_check.unapplied(home.only([accepted]))
    changed = notes.rules_changed(
        notes.listed(home.store), before, observed.rules_version, observed.started, unapplied
    )
    notes.write(home.settings, home.store, changed)
