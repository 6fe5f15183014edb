"""Quantiles of latencies from counts per bucket.

Bucket b stands for 2γ^b/(γ+1) microseconds, γ = (1+α)/(1-α). The p-quantile of n values is that of the smallest bucket
whose cumulative count is at least k = ceil(p·n) (nearest rank), which is within α of the truth and does not depend
on how the counts were added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

PERCENTS = (50, 95, 99)
# Of silver.requests and gold.latency, and of gold.page_latency.
FINE, COARSE = Fraction(1, 100), Fraction(1, 20)


def gamma(alpha: Fraction) -> float:
    return float((1 + alpha) / (1 - alpha))


def seconds(buckets: np.ndarray, alpha: Fraction) -> np.ndarray:
    """The durations that stand for those of the buckets."""
    base = gamma(alpha)
    durations: np.ndarray = 2 * base**buckets / (base + 1) / 1_000_000
    return durations


def upper_bucket(duration: float, alpha: Fraction) -> int:
    """The bucket of a duration in seconds."""
    micros = duration * 1_000_000
    return 0 if micros <= 1 else int(np.ceil(np.log(micros) / np.log(gamma(alpha))))


@dataclass(frozen=True)
class Latency:
    """Requests with a duration, and quantiles of these in seconds; None without such requests."""

    timed: int
    p50: float | None
    p95: float | None
    p99: float | None


def summary(counts: pd.DataFrame, alpha: Fraction) -> Latency:
    """The quantiles of the columns `bucket` and `requests`, with each bucket once."""
    found = quantiles(counts.assign(all=0), ["all"], alpha)
    if found.empty:
        return Latency(0, None, None, None)
    row = found.iloc[0]
    return Latency(int(row["timed"]), *(float(row[f"p{percent}"]) for percent in PERCENTS))


def quantiles(counts: pd.DataFrame, by: Sequence[str], alpha: Fraction) -> pd.DataFrame:
    """Columns `by`, `timed`, and `p50`, `p95`, `p99` in seconds; one row per group of `counts`, which has the columns
    `by`, `bucket` and `requests`, with each bucket of a group once."""
    ordered = counts[counts["requests"] > 0].sort_values([*by, "bucket"])
    groups = ordered.groupby(list(by), sort=True)["requests"]
    passed, number = groups.cumsum(), groups.transform("sum")
    found = groups.sum().rename("timed").reset_index()
    for percent in PERCENTS:
        rank = -(-number * percent // 100)
        reached = ordered[passed >= rank].groupby(list(by), sort=True)["bucket"].first()
        found[f"p{percent}"] = seconds(reached.to_numpy(np.float64), alpha)
    return found


def apdex(counts: pd.DataFrame, threshold: float, alpha: Fraction) -> float | None:
    """The share of satisfied requests (at most `threshold` seconds) and half of those that are tolerated (at most four
    times as long), by buckets; None without requests. See apdex.org."""
    number = counts["requests"].sum()
    if not number:
        return None
    satisfied = counts.loc[counts["bucket"] <= upper_bucket(threshold, alpha), "requests"].sum()
    endured = counts.loc[counts["bucket"] <= upper_bucket(4 * threshold, alpha), "requests"].sum()
    return float((satisfied + endured) / 2 / number)
