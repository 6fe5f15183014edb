"""Alert rules over arrays of windows: thresholds, deviations from the usual, m of n, and what cannot be evaluated."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest

from tidemark.figures.alert_rules import Rule
from tidemark.figures.rules import MAD_SCALE, usual
from tidemark.operate.alerts.evaluation import (
    Evaluation,
    edges,
    episodes,
    evaluated,
    fires_at,
    firing,
    spliced,
)

NAN = float("nan")


def rule(**values: Any) -> Rule:
    return Rule(metric="requests", **values)


def verdicts(windows: Evaluation) -> list[str]:
    return [
        "breach" if b else "ok" if o else "-" for b, o in zip(windows.breaches, windows.obeys, strict=True)
    ]


def fires(flags: str, before: bool = False, **of: int) -> str:
    """The states after windows that breach (x), obey (o), or are not evaluated (-)."""
    bad, good = (np.array([c == wanted for c in flags]) for wanted in "xo")
    result = firing(rule(above=1, **of), Evaluation(bad, good, np.zeros(len(flags))), np.array(before))
    return "".join("F" if each else "." for each in result)


def test_a_threshold_is_breached_beyond_it_and_a_value_that_is_not_known_is_not_evaluated() -> None:
    result = evaluated(rule(above=5), np.array([4, 5, 5.1, NAN]))
    assert verdicts(result) == ["ok", "ok", "breach", "-"]
    assert result.bound.tolist()[:3] == [5, 5, 5]
    result = evaluated(rule(above=5, below=2), np.array([1, 2, 3, 5.1]))
    assert verdicts(result) == ["breach", "ok", "ok", "breach"]
    assert result.bound.tolist() == [2, 2, 2, 5]  # the bound that is breached, else the nearest


def test_a_deviation_is_measured_from_the_same_window_of_the_last_four_weeks() -> None:
    weeks = [100.0, 104, 90, 98]
    middle = statistics.median(weeks)
    distance = 3 * MAD_SCALE * statistics.median(abs(week - middle) for week in weeks)
    values = np.array([middle + distance, middle + distance + 0.001, middle - distance - 0.001, NAN])
    history = np.repeat(np.array(weeks)[:, None], len(values), axis=1)
    result = evaluated(rule(deviation=3), values, history)
    assert verdicts(result) == ["ok", "breach", "breach", "-"]
    assert result.bound[1] == pytest.approx(middle + distance)
    assert result.bound[2] == pytest.approx(middle - distance)


@pytest.mark.parametrize(
    "weeks, verdict",
    [
        ([100, 110, 90, NAN], "breach"),
        ([100, 110, NAN, NAN], "-"),  # three weeks at least
        ([100, 100, 100, 90], "-"),  # the median absolute deviation is 0
        ([NAN] * 4, "-"),
    ],
)
def test_without_a_usual_value_nothing_is_evaluated(weeks: list[float], verdict: str) -> None:
    result = evaluated(rule(deviation=2), np.array([500.0]), np.array(weeks)[:, None])
    assert verdicts(result) == [verdict]
    # Beside it a threshold still is.
    both = evaluated(rule(deviation=2, above=400), np.array([500.0]), np.array(weeks)[:, None])
    assert verdicts(both) == ["breach"]


def test_the_usual_value_equals_the_statistics_of_the_known_weeks() -> None:
    random = np.random.default_rng(7)
    history = np.where(random.random((4, 200)) < 0.2, NAN, random.integers(0, 50, (4, 200)).astype(float))
    middle, spread = usual(history)
    for column in range(history.shape[1]):
        known = [week for week in history[:, column] if week == week]
        if len(known) < 3:
            assert np.isnan(middle[column]) and np.isnan(spread[column])
        else:
            assert middle[column] == statistics.median(known)
            assert spread[column] == statistics.median(abs(week - middle[column]) for week in known)


@pytest.mark.parametrize(
    "windows, states, of",
    [
        ("oxxoo", ".FF..", {}),
        ("oxoxxoxoo", "....FFFF.", {"breaches": 3, "of": 4}),
        ("xxxoxoxooo", "..FFFFFFF.", {"breaches": 3, "of": 3}),
        ("x--o", "FFF.", {}),  # a window that is not evaluated changes nothing
        ("x-x-o-o", "..FFFF.", {"breaches": 2, "of": 3}),
        ("xoooo", "FFF..", {"breaches": 1, "of": 3}),
    ],
)
def test_m_of_n_windows_fire_and_as_many_end(windows: str, states: str, of: dict[str, int]) -> None:
    assert fires(windows, **of) == states == one_by_one(windows, **of)


def one_by_one(windows: str, breaches: int = 1, of: int = 1, before: bool = False) -> str:
    """The contract, window by window."""
    states = []
    for end in range(1, len(windows) + 1):
        last = windows[max(0, end - of) : end]
        if last.count("x") >= breaches:
            before = True
        elif last.count("o") >= breaches:
            before = False
        states.append("F" if before else ".")
    return "".join(states)


def test_states_of_random_windows_equal_those_found_one_by_one() -> None:
    random = np.random.default_rng(3)
    for _ in range(200):
        windows = "".join(random.choice(list("xxoo-"), 40))
        of = int(random.integers(1, 6))
        breaches = int(random.integers(1, of + 1))
        for before in (False, True):
            assert fires(windows, before, breaches=breaches, of=of) == one_by_one(
                windows, breaches, of, before
            )


def series(states: str, before: bool = False) -> list[int]:
    return edges(np.array([c == "F" for c in states], bool), before)


def test_an_alert_begins_and_ends_with_an_edge() -> None:
    assert episodes(series(".FF.F")) == {1: 3, 4: None}
    assert episodes(series("....")) == {}
    assert [fires_at(series(".FF.F"), window) for window in range(6)] == [c == "F" for c in ".FF.FF"]


def test_windows_that_are_evaluated_again_replace_their_part_of_a_series() -> None:
    random = np.random.default_rng(5)
    for _ in range(500):
        old, new = ("".join(random.choice(list("F."), 12)) for _ in range(2))
        start, end = sorted(random.integers(0, 13, 2).tolist())
        whole = old[:start] + new[start:end] + old[end:]
        inner = [edge + start for edge in series(new[start:end], whole[start - 1 : start] == "F")]
        assert spliced(series(old), 12, start, end, inner) == series(whole), (old, new, start, end)


def test_windows_in_front_count_and_are_skipped() -> None:
    flags = Evaluation(*(np.array([c == wanted for c in "xxoxxo"]) for wanted in "xo"), np.zeros(6))
    result = firing(rule(above=1, breaches=2, of=3), flags, np.array(False), skip=2)
    assert result.tolist() == [True, True, True, True]
