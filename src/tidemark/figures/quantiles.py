"""Latencies as counts per bucket, and quantiles of them.

Bucket b has the durations d with γ^(b-1) < d <= γ^b microseconds, γ = (1+α)/(1-α), and stands for 2γ^b/(γ+1);
durations below 1 µs are in bucket 0 (Masson, Rim, Lee: "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with
Relative-Error Guarantees", 2019). The p-quantile of n values is that of the smallest bucket whose cumulative count is
at least k = ceil(p·n) (nearest rank), which is within α of the truth and does not depend on how the counts were added
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PERCENTS = (50, 95, 99)
# Of silver.requests and gold.latency, and of gold.page_latency.
FINE, COARSE = 0.01, 0.05
_MOST = 2**63 - 1


def gamma(alpha: float) -> float:
    return float(_gamma(alpha))


def buckets(durations: pa.Array, alpha: float) -> pa.Array:
    """The bucket (int) of each duration, a whole number of microseconds (long); NULL for NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = durations.is_null().to_numpy(zero_copy_only=False)
    known = pc.fill_null(durations, 0).to_numpy(zero_copy_only=False)
    return pa.array(np.searchsorted(bounds(alpha), known).astype(np.int32), mask=missing)


@lru_cache(maxsize=8)
def bounds(alpha: float) -> np.ndarray:
    """The largest whole number of microseconds of each bucket, up to that of 2^63-1. Computed exactly, so every machine
    takes the same bucket."""
    ratio = _gamma(alpha)
    above, below, largest = 1, 1, [1]
    while largest[-1] < _MOST:
        above, below = above * ratio.numerator, below * ratio.denominator
        largest.append(min(above // below, _MOST))
    every = np.array(largest, np.int64)
    every.setflags(write=False)
    return every


def bucket(duration: float, alpha: float) -> int:
    """The bucket of a duration in seconds."""
    return int(np.searchsorted(bounds(alpha), duration * 1_000_000))


def seconds(buckets: np.ndarray, alpha: float) -> np.ndarray:
    """The durations that stand for those of the buckets."""
    base = gamma(alpha)
    durations: np.ndarray = 2 * base**buckets / (base + 1) / 1_000_000
    return durations


@dataclass(frozen=True)
class Latency:
    """Requests with a duration, and quantiles of these in seconds; None without such requests."""

    timed: int
    p50: float | None
    p95: float | None
    p99: float | None


def summary(counts: pd.DataFrame, alpha: float) -> Latency:
    """The quantiles of the columns `bucket` and `requests`, with each bucket once."""
    rows = quantiles(counts.assign(all=0), ["all"], alpha)
    if rows.empty:
        return Latency(0, None, None, None)
    row = rows.iloc[0]
    return Latency(int(row["timed"]), *(float(row[f"p{percent}"]) for percent in PERCENTS))


def quantiles(counts: pd.DataFrame, by: Sequence[str], alpha: float) -> pd.DataFrame:
    """Columns `by`, `timed`, and `p50`, `p95`, `p99` in seconds; one row per group of `counts`, which has the columns
    `by`, `bucket` and `requests`, with each bucket of a group once."""
    ordered = counts[counts["requests"] > 0].sort_values([*by, "bucket"])
    groups = ordered.groupby(list(by), sort=True)["requests"]
    passed, number = groups.cumsum(), groups.transform("sum")
    result = groups.sum().rename("timed").reset_index()
    for percent in PERCENTS:
        rank = -(-number * percent // 100)
        reached = ordered[passed >= rank].groupby(list(by), sort=True)["bucket"].first()
        result[f"p{percent}"] = seconds(reached.to_numpy(np.float64), alpha)
    return result


def apdex(counts: pd.DataFrame, threshold: float, alpha: float) -> float | None:
    """The share of satisfied requests (at most `threshold` seconds) and half of those that are tolerated (at most four
    times as long), by buckets; None without requests. See apdex.org."""
    number = counts["requests"].sum()
    if not number:
        return None
    satisfied = counts.loc[counts["bucket"] <= bucket(threshold, alpha), "requests"].sum()
    endured = counts.loc[counts["bucket"] <= bucket(4 * threshold, alpha), "requests"].sum()
    return float((satisfied + endured) / 2 / number)


def _gamma(alpha: float) -> Fraction:
    # Of alpha as it is written: 0.01 is a hundredth.
    share = Fraction(str(alpha))
    return (1 + share) / (1 - share)
