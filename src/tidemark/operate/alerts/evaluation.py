"""Evaluates windows of a figure by a rule. Pure functions over arrays whose last axis is consecutive windows.

A value is NaN where the figure is undefined, such as a share without requests. A window that cannot be evaluated
neither breaches a rule nor obeys it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from tidemark.figures.alert_rules import Rule
from tidemark.figures.rules import Numbers, bounds


@dataclass(frozen=True)
class Evaluation:
    """By window: whether it `breaches` the rule or `obeys` it (neither if it is not evaluated), and the `bound` that
    decides: the one that it breaches, else the nearest."""

    breaches: Numbers
    obeys: Numbers
    bound: Numbers


def evaluated(rule: Rule, values: Numbers, history: Numbers | None = None) -> Evaluation:
    """Evaluates windows by their `values`. `history`: the values of the same windows of the weeks before, as of
    `tidemark.figures.rules.series`."""
    lower, upper = bounds(rule, values, history)
    known = np.isfinite(values) & (np.isfinite(lower) | np.isfinite(upper))
    with np.errstate(invalid="ignore"):
        breaches = known & ((values < lower) | (values > upper))
        nearer_lower = np.where(breaches, values < lower, np.abs(values - lower) < np.abs(values - upper))
    return Evaluation(
        breaches, known & ~breaches, np.where(known, np.where(nearer_lower, lower, upper), np.nan)
    )


def firing(rule: Rule, windows: Evaluation, before: Numbers, skip: int = 0) -> Numbers:
    """Whether the alert fires at each window but the first `skip`: from the window on at which `breaches` of the last
    `of` windows breach the rule, until as many of the last `of` obey it. `before`: whether it fires in front of
    them."""
    counts = (_of_last(rule.of, each)[..., skip:] for each in (windows.breaches, windows.obeys))
    bad, good = (count >= rule.breaches for count in counts)
    decided = bad | good
    last = np.maximum.accumulate(np.where(decided, np.arange(decided.shape[-1]), -1), axis=-1)
    state = np.take_along_axis(bad, np.maximum(last, 0), axis=-1)
    return np.where(last < 0, np.expand_dims(before, -1), state)


def _of_last(number: int, flags: Numbers) -> Numbers:
    """How many of the last `number` windows, each with itself, have the flag."""
    sums = np.cumsum(flags, axis=-1)
    earlier = np.zeros_like(sums)
    earlier[..., number:] = sums[..., :-number]
    differences: Numbers = sums - earlier
    return differences


def edges(firing: Numbers, before: bool) -> list[int]:
    """The windows at which a series changes between firing and not."""
    places: list[int] = np.flatnonzero(np.diff(firing.astype(np.int8), prepend=int(before))).tolist()
    return places


def spliced(old: Sequence[int], known: int, start: int, end: int, new: Sequence[int]) -> list[int]:
    """The edges of a series after its windows from `start` to before `end` were evaluated again, which resulted in the
    edges `new`. The windows before `known` were evaluated before; edges outside of the range do not change."""
    kept = [*(edge for edge in old if edge < start), *new]
    if end < known and len(kept) % 2 != sum(edge <= end for edge in old) % 2:
        kept.append(end)
    return [*kept, *(edge for edge in old if edge > end)]


def fires_at(edges: Sequence[int], window: int) -> bool:
    """Whether a series with these edges fires at a window."""
    return sum(edge <= window for edge in edges) % 2 == 1


def episodes(edges: Sequence[int]) -> dict[int, int | None]:
    """The alerts of a series: the windows with which each begins and ends (None: not yet)."""
    return dict(zip_longest(edges[::2], edges[1::2]))
