"""Windows of count and of change, without Spark, and their state in Spark's in-memory tester."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from examples.sensors.sequences import (
    Memory,
    Result,
    Sequences,
    count_windows,
    delta_windows,
    step,
)


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_a_result_after_every_tenth_reading() -> None:
    assert count_windows([], 0, np.arange(1.0, 26.0)) == [
        Result("last_100", 10, 10, 5.5),
        Result("last_100", 20, 20, 10.5),
    ]
    assert count_windows([7.0] * 9, 9, numbers(17)) == [Result("last_100", 10, 10, 8.0)]
    assert count_windows([7.0] * 9, 9, numbers()) == []


def test_only_the_last_hundred_count() -> None:
    last = [1.0] * 100
    assert count_windows(last, 205, np.full(5, 3.0)) == [Result("last_100", 210, 100, 1.1)]


def test_a_window_ends_before_the_reading_that_moved() -> None:
    results, memory = delta_windows(Memory(), numbers(10, 11, 12, 12.5, 12, 15))
    assert results == [Result("moved", 1, 3, 11.0), Result("moved", 2, 2, 12.25)]
    assert (memory.number, memory.first, memory.readings, memory.total) == (3, 15.0, 1, 15.0)


def test_a_move_by_exactly_the_threshold_is_none() -> None:
    assert delta_windows(Memory(), numbers(10, 12, 8))[0] == []


def test_a_slow_drift_ends_a_window_too() -> None:
    results, _ = delta_windows(Memory(), np.arange(0.0, 4.0, 0.5))
    assert results == [Result("moved", 1, 5, 1.0)]


@pytest.mark.parametrize("size", [1, 3, 10, 64, 1000])
def test_how_readings_fall_into_batches_changes_nothing(size: int) -> None:
    values = np.random.default_rng(1).normal(0, 1.5, 500).round(2)
    whole, whole_memory = step(Memory(), values)
    results, memory = [], Memory()
    for start in range(0, len(values), size):
        more, memory = step(memory, values[start : start + size])
        results += more
    assert [r._replace(average=round(r.average, 9)) for r in sorted(results)] == [
        r._replace(average=round(r.average, 9)) for r in sorted(whole)
    ]
    assert (memory.seen, memory.last, memory.number) == (500, whole_memory.last, whole_memory.number)


def test_the_state_is_kept_per_sensor_and_rows_are_taken_by_offset() -> None:
    tester = TwsTester(Sequences())
    first = pd.DataFrame({"sensor": "oil", "value": [20.0, 10.0], "offset": [4, 3]})
    assert results_of(tester, "oil", first) == [("moved", "oil", 1, 1, 10.0)]
    assert results_of(tester, "hall", first.assign(sensor="hall", value=1.0)) == []
    then = pd.DataFrame({"sensor": "oil", "value": [21.0, 30.0], "offset": [5, 6]})
    assert results_of(tester, "oil", then) == [("moved", "oil", 2, 2, 20.5)]


def results_of(tester: TwsTester, sensor: str, rows: pd.DataFrame) -> list[tuple[object, ...]]:
    result = tester.testInPandas(sensor, rows)
    return [tuple(row) for row in result.itertuples(index=False)]
