"""Quality runs beside the flows or on demand: they check the tables at one moment and write quality.results."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pyarrow as pa

from tidemark.contract.quality_tables import RESULTS
from tidemark.home import Home
from tidemark.loops import Side, attempted, every
from tidemark.operate.background import in_background
from tidemark.operate.quality.check import Check, Checker, Result
from tidemark.operate.quality.facts import take_moment
from tidemark.stream.lock import appending

log = logging.getLogger("tidemark.operate.quality")

# The checks run only when no other process needs the CPU. They hold no lock.
_NICE = 19
_RUN = "quality run"


def run(home: Home, check: Check) -> list[Result]:
    """Checks the tables as they are now; writes quality.results and returns its new rows."""
    at = take_moment(home)
    own = {"run_id": uuid.uuid4().hex, "run_time": at.time}
    results = [{**own, **result} for result in check(at)]
    with appending(home.settings):
        home.store.append_arrow(RESULTS, pa.Table.from_pylist(results, RESULTS.arrow_schema))
    return results


def once(home: Home) -> None:
    """Checks new rows, if there are any. A failure is logged."""
    attempted(lambda: _logged(run_if_new(home)), _RUN, log)


def run_if_new(home: Home) -> list[Result]:
    """A run over new rows, as in `watch`, if a table has rows that are newer than the last run; otherwise nothing is
    started or written."""
    if not Checker(home).has_new(take_moment(home)):
        return []
    with checking(home) as check:
        return run(home, check)


def watch(
    home: Home,
    report: Callable[[list[Result]], None] = lambda results: None,
    ended: Callable[[str], None] = lambda trouble: None,
) -> Side:
    """A function that checks new rows every `quality_interval_seconds` until its event is set, and hands each run's
    results to `report`.

    A run that fails is logged and tried again after the next interval; it never stops the flows. `ended` is told
    after each run what went wrong, empty if nothing did.
    """
    interval = home.settings.upkeep.quality_interval_seconds

    def beside(stopping: threading.Event) -> None:
        if interval:
            with checking(home) as check:

                def work() -> None:
                    report(_logged(run(home, check)))

                every(interval, work, _RUN, log, ended)(stopping)

    return beside


def checking(home: Home) -> AbstractContextManager[Check]:
    """A check of new rows, in a process of its own if delta-rs reaches the tables."""
    if not home.store.can.files:
        return nullcontext(Checker(home).new)
    return in_background("quality", _NICE, home.settings.watching, partial(_check_of, home.plain))


def _check_of(home: Home) -> Check:
    return Checker(home).new


def _logged(results: list[Result]) -> list[Result]:
    """Logs failures of a run."""
    for result in results:
        if not result["success"] and result["severity"] == "critical":
            what = f"{result['table']} breaks {result['expectation']}"
            log.error("quality: %s: %s. %s", what, result["observed_value"], result["details"])
    log.debug("%d expectations", len(results))
    return results
