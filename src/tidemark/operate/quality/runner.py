"""Quality runs beside the flows or on demand: they check the tables at one moment and write quality.results."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pyarrow as pa

from tidemark.contract.quality_tables import RESULTS
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.loops import Side, attempted, every
from tidemark.operate.background import in_background
from tidemark.operate.quality.check import Check, Checker, Result
from tidemark.operate.quality.facts import take_moment
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream.lock import appending

log = logging.getLogger("tidemark.operate.quality")

# The checks run only when no other process needs the CPU. They hold no lock.
_NICE = 19
_RUN = "quality run"


def run(settings: Settings, store: Store, tables: Sequence[Table], check: Check) -> list[Result]:
    """Checks the tables as they are now; writes quality.results and returns its new rows."""
    at = take_moment(settings, store, tables)
    own = {"run_id": uuid.uuid4().hex, "run_time": at.time}
    results = [{**own, **result} for result in check(at)]
    with appending(settings):
        store.append_arrow(RESULTS, pa.Table.from_pylist(results, RESULTS.arrow_schema))
    return results


def once(settings: Settings, store: Store, tables: Sequence[Table]) -> None:
    """Checks new rows, if there are any. A failure is logged."""
    attempted(lambda: _logged(run_if_new(settings, store, tables)), _RUN, log)


def run_if_new(settings: Settings, store: Store, tables: Sequence[Table]) -> list[Result]:
    """A run over new rows, as in `watch`, if a table has rows that are newer than the last run; otherwise nothing is
    started or written."""
    if not Checker(settings, store, tables).has_new(take_moment(settings, store, tables)):
        return []
    with checking(settings, store, tables) as check:
        return run(settings, store, tables, check)


def watch(
    settings: Settings,
    store: Store,
    tables: Sequence[Table],
    report: Callable[[list[Result]], None] = lambda results: None,
    ended: Callable[[str], None] = lambda trouble: None,
) -> Side:
    """A function that checks new rows every `quality_interval_seconds` until its event is set, and hands each run's
    results to `report`.

    A run that fails is logged and tried again after the next interval; it never stops the flows. `ended` is told
    after each run what went wrong, empty if nothing did.
    """
    interval = settings.upkeep.quality_interval_seconds

    def beside(stopping: threading.Event) -> None:
        if interval:
            with checking(settings, store, tables) as check:

                def work() -> None:
                    report(_logged(run(settings, store, tables, check)))

                every(interval, work, _RUN, log, ended)(stopping)

    return beside


def checking(settings: Settings, store: Store, tables: Sequence[Table]) -> AbstractContextManager[Check]:
    """A check of new rows, in a process of its own if delta-rs reaches the tables."""
    if not store.can.files:
        return nullcontext(Checker(settings, store, tables).new)
    load = partial(_check_of, settings, [table.plain for table in tables])
    return in_background("quality", _NICE, settings.watching, load)


def _check_of(settings: Settings, tables: Sequence[Table]) -> Check:
    return Checker(settings, DeltaRsStore(lakehouse.of(settings)), tables).new


def _logged(results: list[Result]) -> list[Result]:
    """Logs failures of a run."""
    for result in results:
        if not result["success"] and result["severity"] == "critical":
            what = f"{result['table']} breaks {result['expectation']}"
            log.error("quality: %s: %s. %s", what, result["observed_value"], result["details"])
    log.debug("%d expectations", len(results))
    return results
