"""Counting each batch: what came, what became of it, how late it was."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.flow.crash import crash_point
from tidemark.quality.tables import ACCOUNTS, LATENESS_BOUNDS, SITES
from tidemark.sites import valid_names
from tidemark.store.base import Commit, Store
from tidemark.table import Change

_COUNTS = ("accepted", "rejected", "late")
_BOUNDS = (-1.0, *map(float, LATENESS_BOUNDS), float("inf"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Account:
    """The counts of one batch, per site and in all."""

    sites: list[dict[str, Any]]
    duplicate: int = 0

    def total(self, name: str) -> int:
        return sum(site[name] for site in self.sites)

    @property
    def received(self) -> int:
        return self.total("accepted") + self.total("rejected") + self.duplicate

    def newest(self, name: str) -> datetime | None:
        return max((site[name] for site in self.sites if site[name] is not None), default=None)


class Ledger:
    """Keeps quality.accounts and quality.sites for one flow.

    Remembers each site's row between batches, and reads them anew when another commit, such as a
    rebuild's, has touched the table.
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

    def count(self, judged: DataFrame, duplicate: int = 0) -> Account:
        """Counts judged lines (`site`, `event_time`, `kafka_timestamp`, `accepted`) with one Spark job;
        `duplicate` more have been left out of them."""
        self._refresh()
        accepted = F.col("accepted")
        known = judged.join(F.broadcast(self._newest_in(judged.sparkSession)), "site", "left")
        counted = known.withColumn("_behind", F.when(accepted, _seconds_behind())).groupBy("site").agg(
            F.count_if(accepted).alias("accepted"),
            F.count_if(~accepted).alias("rejected"),
            F.count_if(F.col("_behind") > self._late_seconds).alias("late"),
            F.array(*_histogram(F.col("_behind"))).alias("lateness"),
            F.min(F.when(accepted, F.col("event_time"))).alias("first_event_time"),
            F.max(F.when(accepted, F.col("event_time"))).alias("newest_event_time"),
            F.max("kafka_timestamp").alias("newest_kafka_timestamp"),
        )  # fmt: skip
        return Account(counted.toArrow().to_pylist(), duplicate)

    def count_here(self, judged: pa.Table, duplicate: int = 0) -> Account:
        """The same for a batch that has been fetched."""
        self._refresh()
        accepted = judged["accepted"].combine_chunks()
        sites = judged["site"].combine_chunks().dictionary_encode()
        known = [self._micros(site) for site in sites.dictionary.to_pylist()]
        times = pc.if_else(accepted, judged["event_time"].combine_chunks(), None)
        micros = times.cast(pa.timestamp("us")).cast(pa.int64())
        lag = pc.divide(
            pc.subtract(pc.take(pa.array(known, pa.int64()), sites.indices), micros).cast(pa.float64()), 1e6
        )
        behind = pc.if_else(accepted, pc.max_element_wise(pc.fill_null(lag, 0.0), 0.0), None)
        flags = {
            "accepted": accepted,
            "rejected": pc.invert(accepted),
            "late": pc.greater(behind, self._late_seconds),
            **{
                f"lateness_{n}": pc.and_(pc.greater(behind, low), pc.less_equal(behind, high))
                for n, (low, high) in enumerate(pairwise(_BOUNDS))
            },
        }
        by_site = pa.table(
            {
                "site": sites.dictionary_decode(),
                **{name: pc.fill_null(flag, False).cast(pa.int64()) for name, flag in flags.items()},
                "event_time": times,
                "kafka_timestamp": judged["kafka_timestamp"],
            }
        ).group_by("site")
        rows = by_site.aggregate(
            [
                *((name, "sum") for name in flags),
                ("event_time", "min"),
                ("event_time", "max"),
                ("kafka_timestamp", "max"),
            ]
        ).to_pylist()
        return Account([_named(row) for row in rows], duplicate)

    def commit(self, account: Account, started_at: datetime, commit: Commit) -> None:
        """Writes the batch's row, then the sites': `quality.accounts` first, because a batch whose row
        is there must not be counted again against sites that already know it."""
        if self._store.committed(ACCOUNTS, commit.writer) < commit.number:
            row = {
                "flow": self._flow,
                "batch_id": commit.number,
                "received": account.received,
                **{name: account.total(name) for name in _COUNTS},
                "duplicate": account.duplicate,
                "started_at": started_at,
                "committed_at": datetime.now(UTC),
            }
            self._store.append_arrow(ACCOUNTS, pa.Table.from_pylist([row], ACCOUNTS.arrow_schema), commit)
        crash_point("ledger:between-tables")
        if self._store.committed(SITES, commit.writer) < commit.number:
            # A name that no line is accepted under would stay in the table for ever.
            named = valid_names(pa.array([site["site"] for site in account.sites], pa.string())).to_pylist()
            rows = [self._grown(site) for site, ok in zip(account.sites, named, strict=True) if ok]
            self._store.upsert(SITES, Change(pa.Table.from_pylist(rows, SITES.arrow_schema)), commit)
            self._sites.update({row["site"]: row for row in rows})
            self._version = self._store.version(SITES)

    def _newest_in(self, spark: SparkSession) -> DataFrame:
        """`site` and `_newest`. Rows, not literals: of thousands of those each would be a call of the JVM."""
        newest = self.newest
        times = pa.array(newest.values(), pa.timestamp("us", tz="UTC"))
        return spark.createDataFrame(pa.table({"site": pa.array(newest, pa.string()), "_newest": times}))

    def _micros(self, site: str) -> int | None:
        """Newest event time of a site in microseconds, as of the last committed batch."""
        newest = self._sites.get(site, {}).get("newest_event_time")
        return (newest - _EPOCH) // _MICROSECOND if newest else None

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
        row["first_event_time"] = _pick(min, site["first_event_time"], before["first_event_time"])
        for name in ("newest_event_time", "newest_kafka_timestamp"):
            row[name] = _pick(max, site[name], before[name])
        return row


def _seconds_behind() -> Column:
    """How far a line lags its site's newest line of earlier batches, `_newest`, in seconds, at least 0."""
    lag = (F.unix_micros("_newest") - F.unix_micros("event_time")) / 1_000_000
    return F.greatest(F.coalesce(lag, F.lit(0.0)), F.lit(0.0))


def _histogram(seconds: Column) -> list[Column]:
    return [F.count_if((seconds > low) & (seconds <= high)) for low, high in pairwise(_BOUNDS)]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A row of sums by site under the names that Spark's own count gives them."""
    return {
        "site": row["site"],
        **{name: row[f"{name}_sum"] for name in _COUNTS},
        "lateness": [row[f"lateness_{n}_sum"] for n in range(len(_BOUNDS) - 1)],
        "first_event_time": row["event_time_min"],
        "newest_event_time": row["event_time_max"],
        "newest_kafka_timestamp": row["kafka_timestamp_max"],
    }


def _pick(choose: Any, a: datetime | None, b: datetime | None) -> datetime | None:
    present = [value for value in (a, b) if value is not None]
    return choose(present) if present else None
