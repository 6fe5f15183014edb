"""Buckets of latencies: exact bounds, and quantiles within alpha of the truth."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tidemark.figures.quantiles import (
    COARSE,
    FINE,
    PERCENTS,
    Latency,
    bounds,
    bucket,
    buckets,
    seconds,
    summary,
)

BOTH = pytest.mark.parametrize("alpha", [FINE, COARSE])


@BOTH
def test_each_bucket_ends_at_the_largest_whole_number_that_its_power_reaches(alpha: float) -> None:
    ratio = Fraction(100 + round(alpha * 100), 100 - round(alpha * 100))
    result = bounds(alpha).tolist()
    for number in {0, 1, 2, 35, 100, len(result) - 2}:
        assert result[number] <= ratio**number < result[number] + 1
    assert ratio ** (len(result) - 2) < 2**63 - 1 == result[-1] <= ratio ** (len(result) - 1)
    assert result == sorted(result)


def test_durations_are_in_the_bucket_of_their_logarithm_and_null_is_in_none() -> None:
    durations = pa.array([0, 1, 2, 3, None, 100, 1_000_000, 2**63 - 1])
    # ceil(ln d / ln(101/99))
    assert buckets(durations, 0.01) == pa.array([0, 0, 35, 55, None, 231, 691, 2184], pa.int32())


@BOTH
def test_the_ends_of_a_bucket_are_in_it(alpha: float) -> None:
    ends = np.unique(bounds(alpha))[:-1]
    inside, after = buckets(pa.array(ends), alpha), buckets(pa.array(ends + 1), alpha)
    assert bounds(alpha)[inside.to_numpy()].tolist() == ends.tolist()
    assert (after.to_numpy() > inside.to_numpy()).all()


def counted(buckets: np.ndarray) -> pd.DataFrame:
    numbers, counts = np.unique(buckets, return_counts=True)
    return pd.DataFrame({"bucket": numbers, "requests": counts})


def test_the_rank_of_a_quantile_is_a_whole_number_where_a_float_would_miss_it() -> None:
    for number in range(1, 201):  # 0.95 * 20 is less than 19 as floats
        rank = -(-95 * number // 100)
        result = summary(counted(np.arange(number)), FINE)
        assert result.p95 == seconds(np.array([rank - 1.0]), FINE)[0]
    assert summary(counted(np.zeros(0, np.int64)), FINE) == Latency(0, None, None, None)


@BOTH
def test_a_quantile_of_buckets_is_within_alpha_of_that_of_the_durations(alpha: float) -> None:
    chance = random.Random(1)
    durations = sorted(int(chance.lognormvariate(9, 3)) + 1 for _ in range(10_001))
    result = summary(counted(buckets(pa.array(durations), alpha).to_numpy()), alpha)
    for percent in PERCENTS:
        truth = durations[-(-percent * len(durations) // 100) - 1] / 1e6
        assert getattr(result, f"p{percent}") == pytest.approx(truth, rel=alpha * (1 + 1e-9))


def test_a_duration_in_seconds_has_the_bucket_of_its_microseconds() -> None:
    for micros in (0, 1, 2, 3, 100, 1_000_000):
        assert bucket(micros / 1e6, FINE) == buckets(pa.array([micros]), FINE)[0].as_py()
