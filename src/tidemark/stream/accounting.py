"""Accounting of each batch: received, accepted, rejected and duplicate lines, and their lateness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest
from tidemark.contract.quality_tables import ACCOUNTS, LATENESS_BOUNDS, SITES
from tidemark.contract.store import Commit, Store
from tidemark.engine.groups import Groups, How
from tidemark.parse.site import valid_names
from tidemark.stream.crash import crash_point

_COUNTS = ("accepted", "rejected", "late")
_BOUNDS = (-1.0, *map(float, LATENESS_BOUNDS), float("inf"))
_LATENESS = tuple(f"lateness_{n}" for n in range(len(_BOUNDS) - 1))
_TIMES: Mapping[str, How] = {
    "first_event_time": "min",
    "newest_event_time": "max",
    "newest_kafka_timestamp": "max",
    "reached_event_time": "max",
}
# A line counts as at most this far ahead of its arrival where a site's clock decides.
MOST_AHEAD = timedelta(minutes=5)


@dataclass(frozen=True)
class SiteClocks:
    """Per site, for accepted rows: `rows`, newest event time and newest `ingested_at`."""

    needs = ("site", "event_time", "ingested_at")

    def partial(self, rows: pa.Table) -> pa.Table:
        counted = rows.append_column("rows", pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
        return self.merge(counted.rename_columns([*_CLOCKS, "rows"]))

    def merge(self, partials: pa.Table) -> pa.Table:
        return _by_site(partials, {"rows": "sum", "newest_event_time": "max", "newest_ingested_at": "max"})


_CLOCKS = ("site", "newest_event_time", "newest_ingested_at")


@dataclass(frozen=True)
class SiteCounts:
    """The counts of quality.sites, per site of validated lines. Lateness is measured from the newest event time that
    the site had before the batch."""

    late_seconds: int
    newest: Newest = field(default_factory=dict)

    needs = ("site", "event_time", "kafka_timestamp", "accepted")

    def partial(self, rows: pa.Table) -> pa.Table:
        accepted = rows["accepted"]
        times = pc.if_else(accepted, rows["event_time"], None)
        behind = pc.if_else(accepted, self._seconds_behind(rows["site"], times), None)
        flags = {
            "accepted": accepted,
            "rejected": pc.invert(accepted),
            "late": pc.greater(behind, self.late_seconds),
            **{
                name: pc.and_(pc.greater(behind, low), pc.less_equal(behind, high))
                for name, (low, high) in zip(_LATENESS, pairwise(_BOUNDS), strict=True)
            },
        }
        counts = {name: pc.fill_null(flag, False).cast(pa.int64()) for name, flag in flags.items()}
        ahead = pc.add(rows["kafka_timestamp"], pa.scalar(MOST_AHEAD, pa.duration("us")))
        moments = {
            "first_event_time": times,
            "newest_event_time": times,
            "newest_kafka_timestamp": rows["kafka_timestamp"],
            "reached_event_time": pc.if_else(pc.less(times, ahead), times, pc.if_else(accepted, ahead, None)),
        }
        return self.merge(pa.table({"site": rows["site"], **counts, **moments}))

    def merge(self, partials: pa.Table) -> pa.Table:
        return _by_site(partials, {**dict.fromkeys((*_COUNTS, *_LATENESS), "sum"), **_TIMES})

    def _seconds_behind(self, site: pa.ChunkedArray, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Distance of a line behind its site's newest line of earlier batches, in seconds, at least 0."""
        sites = site.combine_chunks().dictionary_encode()
        if isinstance(sites, pa.ChunkedArray):
            sites = sites.unify_dictionaries().combine_chunks()
        known = pa.array(map(self.newest.get, sites.dictionary.to_pylist()), pa.timestamp("us", "UTC"))
        micros = times.cast(pa.timestamp("us")).cast(pa.int64())
        lag = pc.subtract(pc.take(known.cast(pa.int64()), sites.indices), micros)
        return pc.max_element_wise(pc.fill_null(pc.divide(lag.cast(pa.float64()), 1e6), 0.0), 0.0)


def _by_site(rows: pa.Table, how: Mapping[str, How]) -> pa.Table:
    groups = Groups.by([rows["site"]])
    return pa.table(
        groups.aggregate({"site": (rows["site"], "first"), **{n: (rows[n], h) for n, h in how.items()}})
    )


@dataclass(frozen=True)
class Account:
    """The counts of one batch, per site and in total."""

    sites: list[dict[str, Any]]
    duplicate: int = 0

    @classmethod
    def of(cls, counted: pa.Table, duplicate: int = 0) -> Account:
        """From the partial rows of SiteCounts, which do not contain the `duplicate` lines."""
        lateness = [list(row.values()) for row in counted.select(list(_LATENESS)).to_pylist()]
        rows = counted.drop_columns(list(_LATENESS)).to_pylist()
        return cls([{**row, "lateness": late} for row, late in zip(rows, lateness, strict=True)], duplicate)

    def total(self, name: str) -> int:
        return sum(site[name] for site in self.sites)

    @property
    def received(self) -> int:
        return self.total("accepted") + self.total("rejected") + self.duplicate

    def newest(self, name: str) -> datetime | None:
        return max((site[name] for site in self.sites if site[name] is not None), default=None)


def account_facts(account: Account) -> dict[str, Any]:
    """The report of a counted batch."""
    return {
        "rows": account.received,
        "newest_kafka_timestamp": account.newest("newest_kafka_timestamp"),
        "newest_event_time": account.newest("newest_event_time"),
        **{name: account.total(name) for name in _COUNTS},
        "duplicate": account.duplicate,
    }


def commit_account(store: Store, flow: str, account: Account, started_at: datetime, commit: Commit) -> None:
    """Adds a batch's row to quality.accounts, unless the table has it."""
    if store.committed(ACCOUNTS, commit.writer) >= commit.number:
        return
    row = {
        "flow": flow,
        "batch_id": commit.number,
        "received": account.received,
        **{name: account.total(name) for name in _COUNTS},
        "duplicate": account.duplicate,
        "started_at": started_at,
        "committed_at": datetime.now(UTC),
    }
    store.append_arrow(ACCOUNTS, pa.Table.from_pylist([row], ACCOUNTS.arrow_schema), commit)


class Ledger:
    """Updates quality.accounts and quality.sites for one flow.

    Caches each site's row between batches, and reads them again when another commit, such as a
    rebuild's, has changed the table.
    """

    def __init__(self, store: Store, flow: str, late_seconds: int) -> None:
        self._store = store
        self._flow = flow
        self._late_seconds = late_seconds
        self._sites: dict[str, dict[str, Any]] = {}
        self._version = -1
        self._refresh()

    @property
    def newest(self) -> dict[str, datetime]:
        """Newest event time of each site, as of the last committed batch."""
        return {
            site: row["newest_event_time"] for site, row in self._sites.items() if row["newest_event_time"]
        }

    @property
    def counts(self) -> SiteCounts:
        """The aggregation that counts the lines of the next batch."""
        self._refresh()
        return SiteCounts(self._late_seconds, self.newest)

    def commit(self, account: Account, started_at: datetime, commit: Commit) -> None:
        """Writes the batch's row, then the sites' rows. `quality.accounts` is first, because a batch whose row
        exists must not be counted again for sites that already include it."""
        commit_account(self._store, self._flow, account, started_at, commit)
        crash_point("ledger:between-tables")
        if self._store.committed(SITES, commit.writer) < commit.number:
            # A name without accepted lines would stay in the table forever.
            named = valid_names(pa.array([site["site"] for site in account.sites], pa.string())).to_pylist()
            grown = (self._grown(site) for site, ok in zip(account.sites, named, strict=True) if ok)
            sites = self._sites | {row["site"]: row for row in grown}
            rows = pa.Table.from_pylist(list(sites.values()), SITES.arrow_schema)
            # All rows are known here, and replacing them takes a third of merging some.
            self._store.replace(SITES, lambda: iter([rows]), commit)
            self._sites = sites
            self._version = self._store.version(SITES)

    def _refresh(self) -> None:
        version = self._store.version(SITES)
        if version != self._version:
            self._sites = {row["site"]: row for row in self._store.read(SITES).to_pylist()}
            self._version = version

    def _grown(self, site: dict[str, Any]) -> dict[str, Any]:
        before = self._sites.get(site["site"])
        row = {**site, "updated_at": datetime.now(UTC)}
        if before is None:
            return row
        for name in _COUNTS:
            row[name] += before[name]
        row["lateness"] = [a + b for a, b in zip(site["lateness"], before["lateness"], strict=True)]
        for name, how in _TIMES.items():
            times = [time for time in (site[name], before[name]) if time is not None]
            row[name] = (min if how == "min" else max)(times, default=None)
        return row
