"""Checks tables at a moment: measures facts about new rows and tables, and validates them. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.contract.quality_tables import ACCOUNTS, RESULTS
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.errors import TableError
from tidemark.home import Home
from tidemark.operate.quality.facts import Facts, Moment, New, row_measures
from tidemark.operate.retention import limited

if TYPE_CHECKING:
    from tidemark.operate.quality.validation import Validation

# With more new rows than this, a run beside the flows skips the key, which row counts and `tidemark quality` check:
# finding duplicates takes memory, and in Spark a shuffle.
MOST_KEYS = 1_000_000
# A row may have been uncommitted at the last run of an earlier process.
_OVERLAP = timedelta(minutes=5)
_REMEMBERED = timedelta(days=7)

Result = dict[str, Any]
Check = Callable[[Moment], list[Result]]


class Checker:
    """Checks tables repeatedly; remembers which rows of each table were checked. Results are rows of quality.results
    without the run. All methods raise TableError for a table that cannot be read."""

    def __init__(self, home: Home, *, for_docs: bool = False) -> None:
        self._settings = home.settings
        self._store = home.store
        self._for_docs = for_docs
        passing = limited(home)
        accountable = [_accountable(table, passing) for table in home.tables]
        self._tables = [table for table in accountable if table.has_row_checks or table.accounted]
        self._seen: dict[str, datetime | None] | None = None
        self._newest: dict[str, datetime | None] = {}
        self._accounted: dict[str, int] = {}
        self._accounted_until: datetime | None = None
        self._last: float | None = None
        self._validation: Validation | None = None

    def has_new(self, at: Moment) -> bool:
        """Whether a table has rows that are newer than its last results in quality.results."""
        last = _last_runs(self._store, at.time)
        new = Facts(self._store, at).new_rows({table: last.get(table.name) for table in self._tables})
        return any(added.rows for added in new.values())

    def new(self, at: Moment) -> list[Result]:
        """Checks the rows written since the last call, at first those since the last run in quality.results."""
        if self._seen is None:
            last = _last_runs(self._store, at.time)
            self._seen = {name: then - _OVERLAP for name, then in last.items()}
        before, self._last = self._last, at.seconds
        since = {table: self._seen.get(table.name) for table in self._tables}
        if before is not None:
            # Rows written after the clock was set back are older than rows checked before.
            then = at.time - timedelta(seconds=at.seconds - before)
            since = {table: min(seen, then) if seen else None for table, seen in since.items()}
        return self._check(at, since, MOST_KEYS)

    def all(self, at: Moment, since: datetime | None = None) -> list[Result]:
        """Checks all rows, or those written after `since`."""
        return self._check(at, dict.fromkeys(self._tables, since), None)

    def write_docs(self) -> Path:
        """Writes the Data Docs of all suites and of all results so far (`for_docs`). Returns the first page."""
        return self._validated().write_docs(self._settings.home / "quality" / "docs")

    def _check(self, at: Moment, since: dict[Table, datetime | None], most_keys: int | None) -> list[Result]:
        facts = Facts(self._store, at)
        new = facts.new_rows(since)
        self._look_for_newest(facts, new)
        counts, accounted = self._balance(facts)
        validation = self._validated()
        results: list[Result] = []
        for table in self._tables:
            rows = new[table.name].rows
            if table.has_row_checks and rows:
                with_key = most_keys is None or rows <= most_keys
                results += validation.rows(table, _unexpected(facts, table, since[table], with_key), rows)
            newest = self._newest.get(table.name)
            whole = {
                "age_seconds": (at.time - newest).total_seconds() if newest else None,
                "rows": counts.get(table.name),
                "accounted": accounted.get(table.name),
                "of_usual": facts.share_of_usual(table) if table.volume else None,
                **_proxies(facts, table, newest),
            }
            results += validation.whole(table, whole)
        if self._seen is not None:
            self._seen |= {name: added.newest for name, added in new.items() if added.newest}
        return results

    def _look_for_newest(self, facts: Facts, new: dict[str, New]) -> None:
        self._newest |= {name: added.newest for name, added in new.items() if added.newest}
        unknown = {table: None for table in self._tables if table.name not in self._newest}
        self._newest |= {name: added.newest for name, added in facts.new_rows(unknown).items()}

    def _balance(self, facts: Facts) -> tuple[dict[str, int], dict[str, int]]:
        """Row counts of tables, and their sums in quality.accounts."""
        tables = [table for table in self._tables if table.accounted]
        if not tables:
            return {}, {}
        counts = facts.row_counts([*tables, ACCOUNTS])
        more = facts.accounted_sums(tables, self._accounted_until)
        self._accounted = {name: self._accounted.get(name, 0) + added for name, added in more.items()}
        if self._accounted[ACCOUNTS.name] != counts[ACCOUNTS.name]:
            # The clock was set back: new rows are older than rows counted before.
            self._accounted = facts.accounted_sums(tables, None)
        self._accounted_until = self._newest.get(ACCOUNTS.name)
        return counts, dict(self._accounted)

    def _validated(self) -> Validation:
        if self._validation is None:
            from tidemark.operate.quality.validation import Validation

            self._validation = Validation(self._tables, self._settings.upkeep, for_docs=self._for_docs)
        return self._validation


def _accountable(table: Table, passing: frozenset[str]) -> Table:
    """The table without its sum in quality.accounts, if rows of either expire."""
    return replace(table, lines="") if passing & {table.name, ACCOUNTS.name} else table


def _proxies(facts: Facts, table: Table, newest: datetime | None) -> dict[str, Any]:
    sites = facts.proxied(table, newest) if table.clients and newest else None
    return {"proxied": None if sites is None else len(sites), "sites": "; ".join(sites or ["none"])}


def _unexpected(
    facts: Facts, table: Table, since: datetime | None, with_key: bool
) -> dict[str, int] | dict[str, str]:
    """By rule, the number of rows that break it, or why it is unknown."""
    try:
        return facts.unexpected(table, since, with_key=with_key)
    except TableError as error:
        return dict.fromkeys(row_measures(table, with_key=with_key), str(error))


def _last_runs(store: Store, now: datetime) -> dict[str, datetime]:
    """The time of the last results of each table in quality.results."""
    last: dict[str, datetime] = {}
    with suppress(KeyError):
        rows = store.read(RESULTS, [[("run_time", ">=", now - _REMEMBERED)]], ["table", "run_time"])
        for row in rows.to_pylist():
            # A run in the future was before the clock was set back.
            last[row["table"]] = max(min(row["run_time"], now), last.get(row["table"], now - _REMEMBERED))
    return last
