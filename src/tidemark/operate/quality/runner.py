"""Runs the suites over new rows, beside the flows or on demand, and stores the results."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.contract.quality_tables import ACCOUNTS, RESULTS
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.errors import first_line
from tidemark.local.process import appending
from tidemark.operate.quality import facts
from tidemark.operate.retention import limited
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse

if TYPE_CHECKING:
    from tidemark.operate.quality.validation import Validation

log = logging.getLogger("tidemark.operate.quality")

# With more new rows than this, a run beside the flows skips the key, which row counts and `tidemark quality` check:
# finding duplicates takes a shuffle.
MOST_KEYS = 1_000_000
# A row may have been uncommitted at the last run of an earlier process.
_OVERLAP = timedelta(minutes=5)
_REMEMBERED = timedelta(days=7)

Result = dict[str, Any]


class Runner:
    """Runs suites repeatedly; remembers which rows of each table were checked."""

    def __init__(
        self, spark: SparkSession, settings: Settings, house: Lakehouse, store: Store,
        tables: Sequence[Table], *, for_docs: bool = False,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._settings = settings
        self._house = house
        self._store = store
        self._for_docs = for_docs
        passing = limited(settings.upkeep.retention_days)
        accountable = [_accountable(table, passing) for table in tables]
        self._tables = [table for table in accountable if table.has_row_checks or table.accounted]
        self._seen: dict[str, datetime | None] | None = None
        self._newest: dict[str, datetime | None] = {}
        self._accounted: dict[str, int] = {}
        self._accounted_until: datetime | None = None
        self._last_run: float | None = None
        self._validation: Validation | None = None

    def run_new(self, *, only_if_new: bool = False) -> list[Result]:
        """Checks the rows written since the last run; writes quality.results and returns its new rows.

        With `only_if_new` nothing is done, and nothing returned, when no table has new rows.
        """
        if self._seen is None:
            self._seen = _last_runs(self._store)
        before, self._last_run = self._last_run, time.monotonic()
        since = {table: self._seen.get(table.name) for table in self._tables}
        if before is not None:
            # Rows written after the clock was set back are older than rows checked before.
            then = datetime.now(UTC) - timedelta(seconds=self._last_run - before)
            since = {table: min(seen, then) if seen else None for table, seen in since.items()}
        return self._run(since, MOST_KEYS, only_if_new=only_if_new)

    def run_all(self, since: datetime | None = None) -> list[Result]:
        """Checks all rows, or those written after `since`; writes and returns like `run_new`."""
        return self._run(dict.fromkeys(self._tables, since), None)

    def write_docs(self) -> Path:
        """Writes the Data Docs of all suites and of this runner's results (`for_docs`). Returns the first page."""
        return self._validated().write_docs(self._settings.home / "quality" / "docs")

    def _run(
        self, since: dict[Table, datetime | None], most_keys: int | None, *, only_if_new: bool = False
    ) -> list[Result]:
        started = datetime.now(UTC)
        at = facts.snapshot(self._spark, self._settings, self._house, self._store, self._tables)
        new = facts.new_rows(at, since)
        if only_if_new and not any(found.rows for found in new.values()):
            return []
        self._look_for_newest(at, new)
        counts, accounted = self._balance(at)
        validation = self._validated()
        results: list[Result] = []
        for table in self._tables:
            rows = new[table.name].rows
            if table.has_row_checks and rows:
                with_key = most_keys is None or rows <= most_keys
                results += validation.rows(table, at.rows(table, since[table]), rows, with_key=with_key)
            results += validation.whole(table, self._facts(at, table, counts, accounted, started))
        if self._seen is not None:
            self._seen |= {name: found.newest for name, found in new.items() if found.newest}
        run = {"run_id": uuid.uuid4().hex, "run_time": started}
        results = [{**run, **result} for result in results]
        with appending(self._settings):
            self._store.append_arrow(RESULTS, pa.Table.from_pylist(results, RESULTS.arrow_schema))
        return results

    def _look_for_newest(self, at: facts.Snapshot, new: dict[str, facts.New]) -> None:
        self._newest |= {name: found.newest for name, found in new.items() if found.newest}
        unknown = {table: None for table in self._tables if table.name not in self._newest}
        if unknown:
            self._newest |= {name: found.newest for name, found in facts.new_rows(at, unknown).items()}

    def _balance(self, at: facts.Snapshot) -> tuple[dict[str, int], dict[str, int]]:
        """Row counts of tables, and their sums in quality.accounts."""
        tables = [table for table in self._tables if table.accounted]
        if not tables:
            return {}, {}
        counts = facts.row_counts(at, [*tables, ACCOUNTS])
        more = facts.accounted_sums(at, tables, self._accounted_until)
        self._accounted = {name: self._accounted.get(name, 0) + added for name, added in more.items()}
        if self._accounted[ACCOUNTS.name] != counts[ACCOUNTS.name]:
            # The clock was set back: new rows are older than rows counted before.
            self._accounted = facts.accounted_sums(at, tables, None)
        self._accounted_until = self._newest.get(ACCOUNTS.name)
        return counts, dict(self._accounted)

    def _facts(
        self,
        at: facts.Snapshot,
        table: Table,
        counts: dict[str, int],
        accounted: dict[str, int],
        now: datetime,
    ) -> dict[str, Any]:
        newest = self._newest.get(table.name)
        return {
            "age_seconds": (now - newest).total_seconds() if newest else None,
            "rows": counts.get(table.name),
            "accounted": accounted.get(table.name),
            "of_usual": facts.share_of_usual(at, table, now) if table.volume else None,
        }

    def _validated(self) -> Validation:
        if self._validation is None:
            from tidemark.operate.quality.validation import Validation

            self._validation = Validation(self._tables, self._settings.upkeep, for_docs=self._for_docs)
        return self._validation


def _accountable(table: Table, passing: frozenset[str]) -> Table:
    """The table without its sum in quality.accounts, if rows of either expire."""
    return replace(table, lines="") if passing & {table.name, ACCOUNTS.name} else table


def watch(
    spark: SparkSession,
    settings: Settings,
    house: Lakehouse,
    store: Store,
    tables: Sequence[Table],
    report: Callable[[list[Result]], None] = lambda results: None,
    ended: Callable[[str], None] = lambda trouble: None,
) -> Callable[[threading.Event], None]:
    """A function that checks new rows every `quality_interval_seconds` until its event is set, and hands each
    run's results to `report`.

    A run that fails is logged and tried again after the next interval; it never stops the flows. `ended` is told
    after each run what went wrong, empty if nothing did.
    """
    interval = settings.upkeep.quality_interval_seconds

    def run(stopping: threading.Event) -> None:
        if not interval:
            return
        if settings.spark.is_local:
            # A separate pool gives these jobs a fair share, not precedence over the flows.
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", "quality")
        runner = Runner(spark, settings, house, store, tables)
        while not stopping.wait(interval):
            report(check_new(runner, ended=ended))

    return run


def check_new(
    runner: Runner, *, only_if_new: bool = False, ended: Callable[[str], None] = lambda trouble: None
) -> list[Result]:
    """Checks new rows and logs failures, including a failed run, which is also passed to `ended`."""
    started = time.monotonic()
    try:
        results = runner.run_new(only_if_new=only_if_new)
    except Exception as error:  # a failed quality run must not stop the pipeline
        log.error("quality run failed, the next one tries again: %s", first_line(error))
        ended(first_line(error))
        return []
    ended("")
    for result in results:
        if not result["success"] and result["severity"] == "critical":
            log.error("quality: %s", said(result))
    log.debug("%d expectations in %.1f s", len(results), time.monotonic() - started)
    return results


def said(result: Result) -> str:
    """A failed result in one line."""
    what = f"{result['table']} breaks {result['expectation']}"
    return f"{what}: {result['observed_value']}. {result['details']}"


def _last_runs(store: Store) -> dict[str, datetime | None]:
    """The time from which each table's rows are unchecked, from quality.results."""
    now = datetime.now(UTC)
    since = now - _REMEMBERED
    last: dict[str, datetime | None] = {}
    with suppress(KeyError):
        for row in store.read(RESULTS, [[("run_time", ">=", since)]], ["table", "run_time"]).to_pylist():
            # A run in the future was before the clock was set back.
            run_time = min(row["run_time"], now)
            last[row["table"]] = max(run_time - _OVERLAP, last.get(row["table"]) or since)
    return last
