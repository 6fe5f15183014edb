"""Finds repeated deliveries of a line by its id, before the batch is processed.

A line repeats another if both have the same site and the same header `id`, the other was accepted,
and their Kafka timestamps are less than `duplicate_days` apart. No clock decides, so a batch that runs
again, or a topic that is read again, gives the same result. Bronze has the accepted ids:
its rows with an id, without the rejected ones. A process reads them once per day of Kafka time,
when the first line with an id needs that day, and keeps 24 bytes of each in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.store import Store, Where
from tidemark.contract.table import Table
from tidemark.engine.arrays import Arrays, Vectorized
from tidemark.engine.groups import Numbers, anti_join
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.sizes import are_few, size_of
from tidemark.stream import swap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEY = ("topic", "partition", "offset")
_DAY_US = 86_400_000_000
_LONGS = (-(1 << 63), (1 << 63) - 1)
# Days of Kafka time that no line needed for this long are removed from memory.
_IDLE_SECONDS = 3600.0


class Deliveries:
    """Caches accepted delivery ids for one flow. `lines` and `rejected` are the tables of all and of rejected lines."""

    def __init__(self, store: Store, lakehouse: Lakehouse, lines: Table, rejected: Table, days: int) -> None:
        self._store = store
        self._lakehouse = lakehouse
        self._lines = lines
        self._rejected = rejected
        self._days = days
        self._seen: dict[int, _Day] = {}
        self._swaps = (-1, -1)

    def repeated(self, ids: pa.Table, spark: SparkSession | None) -> pa.Table | None:
        """Keys of the lines of a batch that were accepted before, in an earlier batch or in this one.

        Takes the accepted lines with an id, as partial rows of `DeliveryIds`. Returns None if there are none. The
        ids of lines that are not repeated count as accepted from then on, so call it once per batch, or `forget`
        before the next time. Without Spark, and if bronze has few rows, this process reads bronze.
        """
        if ids.num_rows == 0:
            return None
        ids = ids.sort_by([(name, "ascending") for name in ("_time", *KEY)])
        batch = Ids.of(ids)
        self._recall(batch, ids.select(list(KEY)), spark)
        again = batch.known(self._seen, self._days)
        first = np.flatnonzero(~again)
        again[first] = batch.take(first).repeated(self._days)
        self._remember(batch.take(np.flatnonzero(~again)))
        return ids.select(list(KEY)).filter(pa.array(again))

    def forget(self) -> None:
        """Clears the cache: the next batch reads the accepted ids from bronze."""
        self._seen.clear()

    def _recall(self, batch: Ids, keys: pa.Table, spark: SparkSession | None) -> None:
        """Reads the ids of the necessary days from bronze, unless they are cached."""
        # A rebuild, or the deletion of a visitor, changes the set of accepted lines.
        lines, rejected = (self._store.committed(t, swap.WRITER) for t in (self._lines, self._rejected))
        if (lines, rejected) != self._swaps:
            self._seen.clear()
            self._swaps = lines, rejected
        near = {day + n for day in batch.days for n in range(-self._days, self._days + 1)}
        now = time.monotonic()
        self._seen = {
            day: seen for day, seen in self._seen.items() if day in near or seen.used > now - _IDLE_SECONDS
        }
        missing = sorted(near - self._seen.keys())
        for day in missing:
            self._seen[day] = _Day()
        for day in near:
            self._seen[day].used = now
        if missing and spark and not are_few([size_of(self._lakehouse, self._lines)]):
            self._remember(Ids.of(self._accepted(missing, keys, spark).toArrow()))
        elif missing:
            self._remember(Ids.of(self._read(missing, keys)))

    def _accepted(self, days: list[int], keys: pa.Table, spark: SparkSession) -> DataFrame:
        """Accepted ids of these days in bronze, without those of the current batch, which may have been
        interrupted after its commit to bronze."""
        from pyspark.sql import functions as F

        lines = spark.read.table(self._lakehouse.sql_name(self._lines)).where(_on(days))
        rejected = spark.read.table(self._lakehouse.sql_name(self._rejected)).where(_on(days))
        accepted = with_digest(lines).join(rejected.select(*KEY), list(KEY), "left_anti")
        accepted = accepted.join(F.broadcast(spark.createDataFrame(keys)), list(KEY), "left_anti")
        return accepted.select("_time", "_digest")

    def _read(self, days: list[int], keys: pa.Table) -> pa.Table:
        """The same in this process."""
        time = pa.timestamp("us", "UTC")
        where: Where = [
            [("kafka_timestamp", ">=", pa.scalar(low, time)), ("kafka_timestamp", "<", pa.scalar(high, time))]
            for low, high in _ranges(days)
        ]
        lines = DELIVERY_IDS.partial(self._store.read(self._lines, where, DELIVERY_IDS.needs))
        if lines.num_rows:
            lines = anti_join(lines, self._store.read(self._rejected, where, KEY), KEY)
        return anti_join(lines, keys, KEY).select(["_digest", "_time"])

    def _remember(self, accepted: Ids) -> None:
        for day in accepted.days:
            self._seen[day].add(accepted.take(np.flatnonzero(accepted.day == day)))


def _identified(lines: Arrays) -> dict[str, pa.Array]:
    named = zip(lines["site"].to_pylist(), lines["id"].to_pylist(), strict=True)
    digests = [blake2b(f"{len(site)}:{site}{id}".encode(), digest_size=16).digest() for site, id in named]
    return {"_digest": pa.array(digests, pa.binary()), "_time": lines["kafka_timestamp"].cast(pa.int64())}


# Adds `_digest` (16 bytes) of site and id, and `_time` (us), to lines that have an id.
_IDENTIFIED = Vectorized(("site", "id", "kafka_timestamp"), "_digest binary, _time bigint", _identified)


@dataclass(frozen=True)
class DeliveryIds:
    """The lines with a delivery id (not empty): key, `_digest` and `_time`."""

    needs = (*KEY, "site", "id", "kafka_timestamp")

    def partial(self, rows: pa.Table) -> pa.Table:
        named = rows.filter(pc.greater(pc.binary_length(rows["id"]), 0))
        return _IDENTIFIED.add(named).select([*KEY, "_digest", "_time"])

    def merge(self, partials: pa.Table) -> pa.Table:
        return partials


DELIVERY_IDS = DeliveryIds()


def with_digest(lines: DataFrame) -> DataFrame:
    """Lines with an id (not empty), with `_digest` and `_time`."""
    from pyspark.sql import functions as F

    return _IDENTIFIED.to_frame(lines.where(F.length("id") > 0))


@dataclass(frozen=True)
class Ids:
    """Delivery ids of lines: the halves of their digest, and the Kafka timestamp in microseconds."""

    high: Numbers
    low: Numbers
    time: Numbers

    @classmethod
    def of(cls, rows: pa.Table) -> Ids:
        """From the columns `_digest` and `_time`."""
        digests = pa.concat_arrays(
            rows["_digest"].cast(pa.binary(16)).chunks or [pa.array([], pa.binary(16))]
        )
        halves = np.frombuffer(digests.buffers()[1] or b"", dtype="<u8")
        halves = halves[2 * digests.offset : 2 * (digests.offset + len(digests))].reshape(-1, 2)
        high, low = np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])
        return cls(high, low, rows["_time"].to_numpy())

    @property
    def day(self) -> Numbers:
        days: Numbers = self.time // _DAY_US
        return days

    @property
    def days(self) -> list[int]:
        days: list[int] = np.unique(self.day).tolist()
        return days

    def take(self, at: Numbers) -> Ids:
        return Ids(self.high[at], self.low[at], self.time[at])

    @classmethod
    def ordered(cls, parts: Sequence[Ids]) -> Ids:
        """The ids of all parts, in order of `high`."""
        high, low, moment = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("high", "low", "time")
        )
        return cls(high, low, moment).take(np.argsort(high, kind="stable"))

    def near(self, others: Ids, reach: int) -> Numbers:
        """For each of the others, whether it is among these ids, which are in order of `high`, less than `reach`
        away."""
        present = np.zeros(len(others.high), dtype=bool)
        at = np.searchsorted(self.high, others.high)
        looking = np.arange(len(others.high))
        while True:
            looking = looking[at[looking] < len(self.high)]
            looking = looking[self.high[at[looking]] == others.high[looking]]
            if not len(looking):
                return present
            place = at[looking]
            close = np.abs(self.time[place] - others.time[looking]) < reach
            present[looking] |= close & (self.low[place] == others.low[looking])
            at[looking] += 1

    def known(self, seen: dict[int, _Day], days: int) -> Numbers:
        """Whether each id is among the known ones, within the number of days."""
        known = np.zeros(len(self.time), dtype=bool)
        for day in self.days:
            at = np.flatnonzero(self.day == day)
            of_day = self.take(at)
            for near in range(day - days, day + days + 1):
                for run in seen[near].runs:
                    known[at] |= run.near(of_day, days * _DAY_US)
        return known

    def repeated(self, days: int) -> Numbers:
        """Whether each id repeats an earlier one of the batch that is not a repetition itself."""
        again = np.zeros(len(self.time), dtype=bool)
        order = np.lexsort((np.arange(len(self.time)), self.low, self.high))
        same = (np.diff(self.high[order]) == 0) & (np.diff(self.low[order]) == 0)
        bounds = np.flatnonzero(np.concatenate(([True], ~same, [True])))
        several = np.flatnonzero(np.diff(bounds) > 1)
        for start, end in zip(bounds[several].tolist(), bounds[several + 1].tolist(), strict=True):
            kept: list[int] = []
            for at in order[start:end].tolist():
                moment = int(self.time[at])
                again[at] = any(abs(moment - other) < days * _DAY_US for other in kept)
                if not again[at]:
                    kept.append(moment)
        return again


class _Day:
    """The ids of one day, as few sorted runs of decreasing size, so that additions and look-ups are cheap."""

    def __init__(self) -> None:
        self.runs: list[Ids] = []
        self.used = 0.0

    def add(self, ids: Ids) -> None:
        self.runs.append(Ids.ordered([ids]))
        while len(self.runs) > 1 and len(self.runs[-2].high) < 2 * len(self.runs[-1].high):
            self.runs[-2:] = [Ids.ordered(self.runs[-2:])]


def _on(days: list[int]) -> Column:
    """Conditions for Kafka timestamps on these days, as few ranges, by which files are skipped."""
    from pyspark.sql import functions as F

    ranges = F.lit(False)
    for low, high in _ranges(days):
        first, end = (F.timestamp_micros(F.lit(bound)) for bound in (low, high))
        ranges = ranges | ((F.col("kafka_timestamp") >= first) & (F.col("kafka_timestamp") < end))
    return ranges


def _ranges(days: list[int]) -> Iterator[tuple[int, int]]:
    """The days as few ranges of microseconds, without their ends."""
    breaks = [0, *(n for n in range(1, len(days)) if days[n] != days[n - 1] + 1), len(days)]
    for first, end in pairwise(breaks):
        low, high = (
            min(max(day * _DAY_US, _LONGS[0]), _LONGS[1]) for day in (days[first], days[end - 1] + 1)
        )
        yield low, high
