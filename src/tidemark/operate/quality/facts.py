"""Facts about tables for expectations, measured by the store at one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

from tidemark.contract.expression import Expression, column
from tidemark.contract.measure import Measure, Scan, count, newest, repeated, total, unfulfilled
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.contract.store import Store
from tidemark.contract.table import Table
from tidemark.home import Home
from tidemark.operate.quality.proxies import proxied
from tidemark.stream import lock

KEY_RULE = "key_unique"
_DAYS = 7
_LEAST_DAYS = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Batches of jobs on the same home are no lines of these tables.
_OWN = column("flow").matches("[^.]*")


@dataclass(frozen=True)
class Moment:
    """A moment between two micro-batches at which a quality run reads all tables, so that their counts agree: its time,
    the seconds of a clock that is never set, which all processes share, and the tables' versions."""

    time: datetime
    seconds: float
    versions: Mapping[str, int]


@dataclass(frozen=True)
class New:
    """Number of new or revised rows of a table, and the time of the newest."""

    rows: int
    newest: datetime | None


def take_moment(home: Home) -> Moment:
    """Now, between two micro-batches; batches wait for a few milliseconds."""
    now, seconds = datetime.now(UTC), time.monotonic()
    checked = [table for table in home.tables if table.has_row_checks or table.accounted]
    with lock.at_rest(home.settings):
        versions = {table.name: home.store.version(table) for table in (*checked, ACCOUNTS)}
    return Moment(now, seconds, versions)


def row_measures(table: Table, *, with_key: bool) -> dict[str, Measure]:
    """By rule, what counts the rows that break it."""
    rules = {each.name: unfulfilled(each.holds) for each in table.expectations}
    return {**rules, KEY_RULE: repeated(table.key)} if with_key else rules


class Facts:
    """Facts about the tables at a moment. All methods raise TableError for a table that cannot be read."""

    def __init__(self, store: Store, at: Moment) -> None:
        self._store = store
        self._at = at

    def new_rows(self, since: Mapping[Table, datetime | None]) -> dict[str, New]:
        """New rows of each table after its time in `since`."""
        measured = self._measure(
            *((table, [count(), newest(table.clock)], _after(table, then)) for table, then in since.items())
        )
        return {
            table.name: New(rows or 0, None if micros is None else _EPOCH + timedelta(microseconds=micros))
            for table, (rows, micros) in zip(since, measured, strict=True)
        }

    def row_counts(self, tables: Sequence[Table]) -> dict[str, int]:
        """Rows of whole tables."""
        measured = self._measure(*((table, [count()], None) for table in tables))
        return {table.name: rows or 0 for table, (rows,) in zip(tables, measured, strict=True)}

    def accounted_sums(self, tables: Sequence[Table], since: datetime | None) -> dict[str, int]:
        """Increase of each table's `accounted` sum in quality.accounts after `since`, and the number of its rows."""
        names = ("accepted", "rejected")
        measures = [*(total(name, _OWN) for name in names), count()]
        [(*sums, rows)] = self._measure((ACCOUNTS, measures, _after(ACCOUNTS, since)))
        by_name = dict(zip(names, sums, strict=True))
        measured = {
            table.name: sum(by_name[name] or 0 for name in table.accounted.split(" + ")) for table in tables
        }
        return {**measured, ACCOUNTS.name: rows or 0}

    def share_of_usual(self, table: Table) -> float | None:
        """The last hour's sum of `table.volume` divided by the median of the same hour on the last seven days.

        None with fewer than three days to compare with.
        """
        clock, now = column(table.time), self._at.time.replace(microsecond=0)
        ends = [now - timedelta(days=day) for day in range(_DAYS + 1)]
        hours = [(clock >= end - timedelta(hours=1)) & (clock < end) for end in ends]
        since = clock >= ends[-1] - timedelta(hours=1)
        [(last, *days)] = self._measure((table, [total(table.volume, hour) for hour in hours], since))
        before = [volume for volume in days if volume]
        return float((last or 0) / median(before)) if len(before) >= _LEAST_DAYS else None

    def proxied(self, table: Table, newest: datetime) -> list[str]:
        """The sites whose clients are hidden by a proxy, as `tidemark.operate.quality.proxies.proxied`."""
        return proxied(self._store, table, self._at.versions[table.name], newest)

    def unexpected(self, table: Table, since: datetime | None, *, with_key: bool) -> dict[str, int]:
        """By rule, how many rows written after `since` (default: all) break it; `with_key` among themselves."""
        measures = row_measures(table, with_key=with_key)
        [numbers] = self._measure((table, list(measures.values()), _after(table, since)))
        return {rule: rows or 0 for rule, rows in zip(measures, numbers, strict=True)}

    def _measure(self, *wanted: tuple[Table, Sequence[Measure], Expression | None]) -> list[list[int | None]]:
        return self._store.measure(
            [Scan(table, self._at.versions[table.name], measures, where) for table, measures, where in wanted]
        )


def _after(table: Table, since: datetime | None) -> Expression | None:
    return None if since is None else column(table.clock) > since
