"""Buckets of latencies, from which any quantile is within a share alpha of the truth.

Bucket b has the durations d with γ^(b-1) < d <= γ^b microseconds, γ = (1+alpha)/(1-alpha); durations below 1 µs are in
bucket 0 (Masson, Rim, Lee: "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees",
2019). The bounds are whole numbers, computed exactly, so every machine takes the same bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bounds = np.ndarray[Any, np.dtype[np.int64]]

_MOST = 2**63 - 1


def buckets(durations: pa.Array, alpha: float) -> pa.Array:
    """The bucket (int) of each duration, a whole number of microseconds (long); NULL for NULL."""
    missing = durations.is_null().to_numpy(zero_copy_only=False)
    known = pc.fill_null(durations, 0).to_numpy(zero_copy_only=False)
    return pa.array(np.searchsorted(bounds(alpha), known).astype(np.int32), mask=missing)


@lru_cache(maxsize=8)
def bounds(alpha: float) -> Bounds:
    """The largest whole number of microseconds of each bucket, up to that of 2^63-1."""
    ratio = _ratio(alpha)
    above, below, found = 1, 1, [1]
    while found[-1] < _MOST:
        above, below = above * ratio.numerator, below * ratio.denominator
        found.append(min(above // below, _MOST))
    made = np.array(found, np.int64)
    made.setflags(write=False)
    return made


def value_us(bucket: int, alpha: float) -> float:
    """The duration in microseconds that stands for those of a bucket: 2γ^b/(γ+1)."""
    ratio = _ratio(alpha)
    return float(2 * ratio**bucket / (ratio + 1))


def quantile(counts: Mapping[int, int], p: Fraction) -> int | None:
    """The bucket of the p-quantile by nearest rank: the smallest whose cumulative count is at least ceil(p·n).

    `counts` are the durations of each bucket, n all of them; None without any.
    """
    number = sum(counts.values())
    rank = max(1, -(-p.numerator * number // p.denominator))
    passed = 0
    for bucket in sorted(counts):
        passed += counts[bucket]
        if passed >= rank:
            return bucket
    return None


def _ratio(alpha: float) -> Fraction:
    """γ of an alpha as it is written: 0.01 is a hundredth."""
    share = Fraction(str(alpha))
    return (1 + share) / (1 - share)
