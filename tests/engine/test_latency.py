"""Buckets of latencies: exact bounds, and quantiles within alpha of the truth."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from tidemark.engine.latency import bounds, buckets, quantile, value_us

BOTH = pytest.mark.parametrize("alpha", [0.01, 0.05])


@BOTH
def test_each_bucket_ends_at_the_largest_whole_number_that_its_power_reaches(alpha: float) -> None:
    ratio = Fraction(100 + round(alpha * 100), 100 - round(alpha * 100))
    found = bounds(alpha).tolist()
    for bucket in {0, 1, 2, 35, 100, len(found) - 2}:
        assert found[bucket] <= ratio**bucket < found[bucket] + 1
    assert ratio ** (len(found) - 2) < 2**63 - 1 == found[-1] <= ratio ** (len(found) - 1)
    assert found == sorted(found)


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


def test_the_rank_of_a_quantile_is_a_whole_number_where_a_float_would_miss_it() -> None:
    counts = dict.fromkeys(range(1, 101), 1)
    for percent in range(1, 101):  # 0.07 * 100 is more than 7 as floats
        assert quantile(counts, Fraction(percent, 100)) == percent
    assert quantile({5: 2, 9: 1}, Fraction(2, 3)) == 5
    assert quantile({5: 2, 9: 1}, Fraction(67, 100)) == 9
    assert quantile({}, Fraction(1, 2)) is None


@BOTH
def test_a_quantile_of_buckets_is_within_alpha_of_that_of_the_durations(alpha: float) -> None:
    chance = random.Random(1)
    durations = sorted(int(chance.lognormvariate(9, 3)) + 1 for _ in range(10_001))
    numbers, counts = np.unique(buckets(pa.array(durations), alpha).to_numpy(), return_counts=True)
    by_bucket = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    for percent in (1, 50, 95, 99, 100):
        bucket = quantile(by_bucket, Fraction(percent, 100))
        truth = durations[-(-percent * len(durations) // 100) - 1]
        assert bucket is not None
        assert value_us(bucket, alpha) == pytest.approx(truth, rel=alpha * (1 + 1e-9))
