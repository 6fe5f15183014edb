"""Counts of requests per event-time window, defined once and made in two places: by Spark of rows of any number,
and here of a batch that has been fetched, which then costs no Spark job.

Either way gives partial rows, which `combine` adds to those in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.sketches import added_up, count, mergeable, sketch_of, unique_count, unique_sketch
from tidemark.table import Combine
from tidemark.windows import tumbling_start, window_end

_UNIQUES = {"visitors": "visitors_sketch"}
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Sum:
    """A sum over the rows of a window: what each row adds to it (long, never NULL), in Spark and as an array."""

    in_spark: Callable[[], Column]
    here: Callable[[pa.Table], pa.ChunkedArray | pa.Array]


def rows() -> Sum:
    """How many rows there are."""
    return Sum(lambda: F.lit(1), lambda table: pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))


def flagged(name: str) -> Sum:
    """How many rows are flagged in a boolean column; NULL is no."""
    return total(name)


def within(name: str, least: int, most: int) -> Sum:
    """How many rows have a number from `least` to `most` in a column."""
    return _of(
        lambda: F.col(name).between(least, most),
        lambda table: pc.and_(pc.greater_equal(table[name], least), pc.less_equal(table[name], most)),
    )


def total(name: str) -> Sum:
    """The numbers of a column, added; NULL is 0."""
    return _of(lambda: F.col(name), lambda table: table[name])


def _of(in_spark: Callable[[], Column], here: Callable[[pa.Table], pa.ChunkedArray]) -> Sum:
    return Sum(
        lambda: F.coalesce(in_spark().cast("long"), F.lit(0)),
        lambda table: pc.fill_null(pc.cast(here(table), pa.int64()), 0),
    )


@dataclass(frozen=True)
class WindowedCounts:
    """Sums and distinct visitors per site, tumbling window of `seconds`, and further columns `by`.

    Counted are rows of silver.requests, or those that are flagged `where`; visitors are those of them that are no bots.
    """

    seconds: int
    sums: Mapping[str, Sum]
    by: tuple[str, ...] = ()
    where: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the table."""
        return ("site", "window_start", *self.by)

    @property
    def combine(self) -> Combine:
        """Adds partial rows to those in the table, and says when in `updated_at`."""
        return mergeable(self.key, [*self.sums], _UNIQUES)

    @property
    def state(self) -> dict[str, str]:
        """For `Table.state`."""
        return added_up(self.seconds, [*self.sums], _UNIQUES)

    def by_spark(self, requests: DataFrame) -> DataFrame:
        """The partial rows: key, `window_end`, the sums, `visitors` and `visitors_sketch`."""
        start = tumbling_start(F.col("event_time"), self.seconds).alias("window_start")
        counted = requests.where(self.where) if self.where else requests
        return (
            counted.groupBy("site", start, *self.by)
            .agg(
                *(F.sum(of.in_spark()).alias(name) for name, of in self.sums.items()),
                unique_sketch(F.when(~F.col("bot"), F.col("visitor_id"))).alias("visitors_sketch"),
            )
            .withColumns(
                {
                    "window_end": window_end(F.col("window_start"), self.seconds),
                    "visitors": unique_count(F.col("visitors_sketch")),
                }
            )
        )

    def here(self, requests: pa.Table) -> pa.Table:
        """The same, of a table that is here."""
        if self.where:
            requests = requests.filter(requests[self.where])
        counted = {name: requests[name] for name in ("site", *self.by)}
        counted["window_start"] = self._start(requests["event_time"])
        counted["visitors"] = pc.if_else(requests["bot"], None, requests["visitor_id"])
        counted |= {name: of.here(requests) for name, of in self.sums.items()}
        distinct = ("visitors", "distinct", pc.CountOptions(mode="only_valid"))
        groups = (
            pa.table(counted)
            .group_by([*self.key])
            .aggregate([distinct, *((name, "sum") for name in self.sums)])
        )
        sketches = [sketch_of(visitors) for visitors in groups["visitors_distinct"].to_pylist()]
        start = groups["window_start"]
        return pa.table(
            {name: groups[name] for name in self.key}
            | {name: groups[f"{name}_sum"] for name in self.sums}
            | {
                "visitors_sketch": pa.array(sketches, pa.binary()),
                "window_end": pc.add(start, pa.scalar(self.seconds * _MICROSECONDS, pa.duration("us"))),
                "visitors": pa.array(map(count, sketches), pa.int64()),
            }
        )

    def _start(self, time: pa.ChunkedArray) -> pa.Array:
        width = self.seconds * _MICROSECONDS
        micros = np.asarray(time.cast(pa.int64()))
        return pa.array(micros // width * width).cast(pa.timestamp("us", tz="UTC"))
