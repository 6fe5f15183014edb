"""Alert rules as `tidemark.toml` declares them, and the figures that they watch.

The values of a rule are those that the pipeline judges: the metric of tumbling windows that are aligned to the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import conditions, goals, latency, silver
from tidemark.figures.declared import GOAL
from tidemark.figures.measures import AUDIENCE, LINES, RESPONSES, TRAFFIC, measured
from tidemark.figures.query import Condition, Where, count, query, time_bin
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection, SelectionError, filters_of
from tidemark.figures.silver import PEOPLE

WINDOWS = {"5m": 300, "1h": 3600, "1d": 86_400}
SHARES = {"share_5xx": "status_5xx", "share_bots": "bot_requests"}
WEEK = timedelta(days=7)
WEEKS, LEAST_WEEKS = 4, 3
# Scales the median absolute deviation of a normal distribution to its standard deviation.
MAD_SCALE = 1.4826
_NOT_FOUND = Where("status", "=", 404)


@dataclass(frozen=True)
class Rule:
    """A rule; `site` None means every site. `goal` is the goal that a metric `goal:NAME` watches, and `targets` are the
    kinds of its own targets, which are secrets."""

    metric: str
    seconds: int
    site: str | None = None
    filters: tuple[Filter, ...] = ()
    above: float | None = None
    below: float | None = None
    deviation: float | None = None
    goal: Mapping[str, Any] | None = None
    targets: tuple[str, ...] = ()

    @property
    def of_lines(self) -> bool:
        """Whether its values are counted from single requests, which takes long over a long time."""
        fine = self.metric == "not_found" and self.seconds < RESPONSES.seconds
        return bool(self.filters) or self.goal is not None or fine

    @property
    def requests(self) -> tuple[Condition, ...]:
        """Conditions on the requests that its metric counts."""
        if self.goal is not None:
            return goals.matching(self.goal)
        return {
            "share_5xx": (Where("status", ">=", 500), Where("status", "<", 600)),
            "share_bots": (Where("bot", "=", True),),
            "not_found": (_NOT_FOUND,),
            "p95": (latency.TIMED,),
            "visitors": (PEOPLE,),
        }.get(self.metric, ())


def rule_of(values: Mapping[str, Any], declared_goals: Mapping[str, Mapping[str, Any]]) -> Rule:
    """A rule of its table in the file. Raises SelectionError for one that the pipeline would refuse, too."""
    metric, window = str(values.get("metric", "")), str(values.get("window", "5m"))
    goal = declared_goals.get(metric.removeprefix(GOAL)) if metric.startswith(GOAL) else None
    if window not in WINDOWS or (metric.startswith(GOAL) and goal is None):
        raise SelectionError(f"the metric {metric!r} or the window {window!r} is unknown")
    return Rule(
        metric,
        WINDOWS[window],
        values.get("site") or None,
        filters_of([str(text) for text in values.get("filter", ())]),
        **{name: values.get(name) for name in ("above", "below", "deviation")},
        goal=goal,
        targets=tuple(_kind(str(target)) for target in values.get("to", ())),
    )


def _kind(target: str) -> str:
    """A target as it may be shown, because it is a secret: the name of a variable, or the scheme of a URL."""
    scheme, found, _ = target.partition("://")
    return target if target.startswith("$") else scheme if found and scheme.isalnum() else "unknown"


def watched(
    rows: Rows, rule: Rule, site: str, first: datetime | None, start: datetime, end: datetime
) -> pd.DataFrame:
    """The windows of a site from the one of `start` until before `end`: columns `bin`, `value`, and the bounds `lower`
    and `upper` (NaN where there is none). A share without requests and a latency without timed ones is NaN. `first` is
    the site's first event: windows before its own have no value."""
    width = timedelta(seconds=rule.seconds)
    start = _floor(start, rule.seconds)
    bins = pd.date_range(start, end, freq=width, inclusive="left", name="bin").as_unit("us")
    values = _values(rows, rule, site, first, bins)
    lower = np.full(len(bins), -np.inf if rule.below is None else rule.below)
    upper = np.full(len(bins), np.inf if rule.above is None else rule.above)
    if rule.deviation is not None:
        history = [_values(rows, rule, site, first, bins - week * WEEK) for week in range(1, WEEKS + 1)]
        middle, distance = _usual(np.stack(history), rule.deviation)
        lower, upper = np.fmax(lower, middle - distance), np.fmin(upper, middle + distance)
    bounds = {"lower": lower, "upper": upper}
    return pd.DataFrame(
        {"bin": bins, "value": values} | {n: np.where(np.isfinite(b), b, np.nan) for n, b in bounds.items()}
    )


def _usual(history: np.ndarray, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Median over the weeks, and how far from it a window may be; NaN where too few weeks are known or they hardly
    differ."""
    enough = np.isfinite(history).sum(axis=0) >= LEAST_WEEKS
    some = np.where(enough, history, 0.0)
    middle = np.nanmedian(some, axis=0)
    spread = np.nanmedian(np.abs(some - middle), axis=0)
    usable = enough & (spread > 0)
    return np.where(usable, middle, np.nan), np.where(usable, deviation * MAD_SCALE * spread, np.nan)


def _values(rows: Rows, rule: Rule, site: str, first: datetime | None, bins: pd.DatetimeIndex) -> np.ndarray:
    if not len(bins):
        return np.empty(0)
    end = bins[-1] + timedelta(seconds=rule.seconds)
    selection = Selection(site, bins[0].to_pydatetime(), end.to_pydatetime(), filters=rule.filters)
    found = _metric(rows, rule, selection).reindex(bins)
    if rule.metric != "p95" and rule.metric not in SHARES:
        found = found.fillna(0)
    since = bins[-1] + WEEK if first is None else _floor(first, rule.seconds)
    return np.where(bins < since, np.nan, found.to_numpy(np.float64))


def _metric(rows: Rows, rule: Rule, selection: Selection) -> pd.Series:
    """The metric by the starts of windows that have requests."""
    seconds, metric = rule.seconds, rule.metric
    if metric == "p95":
        return latency.over_time(rows, selection, seconds).set_index("bin")["p95"]
    if rule.goal is not None:
        where = (*conditions.of_lines(selection), *rule.requests)
        columns = {"bin": time_bin("event_time", seconds), "n": count()}
        return rows(query(silver.REQUESTS, columns, where, group_by=["bin"])).set_index("bin")["n"]
    part = SHARES.get(metric)
    names = ["requests", part] if part else ["requests" if metric == "not_found" else metric]
    golds = (TRAFFIC,) if part else (RESPONSES,) if metric == "not_found" else (TRAFFIC, AUDIENCE)
    where = rule.requests if metric == "not_found" else ()
    found = measured(rows, selection, LINES, golds, names, bin_seconds=seconds, where=where).set_index("bin")
    return found[part] / found["requests"] if part else found[names[0]]


def _floor(moment: datetime, seconds: int) -> pd.Timestamp:
    return pd.Timestamp(int(moment.timestamp()) // seconds * seconds, unit="s", tz="UTC")
