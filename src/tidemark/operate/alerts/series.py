"""Evaluates ranges of windows of one rule, for many sites at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tidemark.figures.alert_rules import Rule
from tidemark.figures.rows import Rows
from tidemark.figures.rules import WEEKS, Numbers, of_lines
from tidemark.figures.rules import series as figures_of
from tidemark.operate.alerts import evaluation

_WEEK = 7 * 86_400
# Cells of a matrix of sites and windows; seconds of lines that are read at once.
_MOST_CELLS = 200_000
_MOST_SECONDS = 86_400
# Evaluating the windows between two ranges takes less than reading twice.
_NEAR_SECONDS = 6 * 3600

Range = tuple[int, int]


@dataclass
class Series:
    """The states of a rule on one site, in windows numbered since the epoch: from `start` to before `end`, of which
    those before `known` were evaluated earlier. `edges` as in `evaluation.edges`.

    `seen`: value and bound of the evaluated windows at which the state changes. `last`: state, value and bound of the
    window before `end`.
    """

    start: int
    known: int
    end: int
    edges: list[int] = field(default_factory=list)
    seen: dict[int, tuple[float, float]] = field(default_factory=dict)
    last: tuple[str, float, float] = ("unknown", np.nan, np.nan)


def evaluate(
    rows: Rows, rule: Rule, series: Mapping[str, Series], todo: Mapping[str, Iterable[Range]]
) -> None:
    """Evaluates ranges of windows of sites, and updates their series. If a range ends in another state than before, the
    following windows are evaluated, too, until the states agree."""
    waiting: dict[Range, set[str]] = defaultdict(set)
    for site, ranges in todo.items():
        for each in ranges:
            waiting[each].add(site)
    while waiting:
        start, end = min(waiting)
        sites = sorted(waiting.pop((start, end)))
        stop = min(end, start + _most_windows(rule, len(sites)))
        changed = _evaluate(rows, rule, {site: series[site] for site in sites}, start, stop)
        if stop < end:
            waiting[stop, end].update(sites)
            continue
        for site in changed:
            more = max(2 * (stop - start), 1 + _NEAR_SECONDS // rule.seconds)
            waiting[stop, min(stop + more, series[site].known)].add(site)


def affected(rule: Rule, ranges: Iterable[Range], start: int, end: int) -> list[Range]:
    """The windows from `start` to before `end` whose evaluation depends on those of `ranges`."""
    weeks = WEEKS if rule.deviation is not None else 0
    shifts = [week * _WEEK // rule.seconds for week in range(weeks + 1)]
    wide = sorted(
        (max(a + shift, start), min(b + shift + rule.of - 1, end))
        for a, b in ranges
        for shift in shifts
        if a < b
    )
    reached: list[Range] = []
    for a, b in wide:
        if reached and a <= reached[-1][1] + _NEAR_SECONDS // rule.seconds:
            reached[-1] = (reached[-1][0], max(b, reached[-1][1]))
        elif a < b:
            reached.append((a, b))
    return reached


def runs(windows: Numbers) -> list[Range]:
    """Ranges of consecutive windows."""
    distinct = np.unique(windows)
    parts = np.split(distinct, np.flatnonzero(np.diff(distinct) > 1) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def _most_windows(rule: Rule, sites: int) -> int:
    most = _MOST_CELLS // sites
    if of_lines(rule):
        most = min(most, _MOST_SECONDS // rule.seconds)
    return max(1, most)


def _evaluate(rows: Rows, rule: Rule, series: Mapping[str, Series], start: int, end: int) -> list[str]:
    """Evaluates the windows from `start` to before `end`. Returns the sites whose state at `end` has changed, and that
    have evaluated windows from there on."""
    skip = rule.of - 1
    first = start - skip
    firsts = {site: one.start for site, one in series.items()}
    values, history = figures_of(rows, rule, firsts, first, end)
    states = evaluation.evaluated(rule, values, history)
    before = np.array([evaluation.fires_at(one.edges, start - 1) for one in series.values()])
    firing = evaluation.firing(rule, states, before, skip)
    changed = []
    for row, (site, one) in enumerate(series.items()):
        was, now = evaluation.fires_at(one.edges, end - 1), bool(firing[row, -1])
        new = [start + edge for edge in evaluation.edges(firing[row], bool(before[row]))]
        one.edges = evaluation.spliced(one.edges, one.known, start, end, new)
        one.seen |= {w: (float(values[row, w - first]), float(states.bound[row, w - first])) for w in new}
        if end < one.known and was != now:
            changed.append(site)
        if end == one.end:
            state = (
                "firing" if now else "ok" if states.obeys[row, -1] or states.breaches[row, -1] else "unknown"
            )
            one.last = (state, float(values[row, -1]), float(states.bound[row, -1]))
    return changed
