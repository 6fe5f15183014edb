"""The figures that alert rules watch, in tumbling windows aligned to the epoch, and the bounds of these windows.

Windows are numbered since the epoch, see `alert_rules.window_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import conditions, goals, latency, silver
from tidemark.figures.alert_rules import Rule, time_of, window_of
from tidemark.figures.measures import AUDIENCE, LINES, RESPONSES, TRAFFIC, measured
from tidemark.figures.quantiles import FINE, quantiles
from tidemark.figures.query import Columns, Condition, Where, count, query, time_bin
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE

Numbers = np.ndarray[Any, Any]

SHARES = {"share_5xx": "status_5xx", "share_bots": "bot_requests"}
WEEKS, LEAST_WEEKS = 4, 3
# Scales the median absolute deviation of a normal distribution to its standard deviation.
MAD_SCALE = 1.4826
_WEEK = 7 * 86_400
_TICK = timedelta(microseconds=1)


def of_lines(rule: Rule) -> bool:
    """Whether the figure is counted from single requests, which takes long over a long time."""
    fine = rule.metric == "not_found" and rule.seconds < RESPONSES.seconds
    return bool(rule.filter) or rule.goal is not None or fine


def requests_of(rule: Rule) -> tuple[Condition, ...]:
    """Conditions on the requests that the metric counts."""
    if rule.goal is not None:
        return goals.matching(rule.goal)
    return {
        "share_5xx": (Where("status", ">=", 500), Where("status", "<", 600)),
        "share_bots": (Where("bot", "=", True),),
        "not_found": (Where("status", "=", 404),),
        "p95": (latency.TIMED,),
        "visitors": (PEOPLE,),
    }.get(rule.metric, ())


def watched(
    rows: Rows, rule: Rule, site: str, first: datetime | None, start: datetime, end: datetime
) -> pd.DataFrame:
    """The windows of a site from the one of `start` until before `end`: columns `bin`, `value`, and the bounds `lower`
    and `upper` (NaN where there is none). A share without requests and a latency without timed ones is NaN. `first` is
    the site's first event: windows before its own have no value."""
    begin, until = window_of(start, rule.seconds), 1 + window_of(end - _TICK, rule.seconds)
    since = until if first is None else window_of(first, rule.seconds)
    values, history = series(rows, rule, {site: since}, begin, until)
    lower, upper = (np.where(np.isfinite(each), each, np.nan)[0] for each in bounds(rule, values, history))
    bins = pd.to_datetime(np.arange(begin, until) * rule.seconds, unit="s", utc=True).as_unit("us")
    return pd.DataFrame({"bin": bins, "value": values[0], "lower": lower, "upper": upper})


def series(
    rows: Rows, rule: Rule, firsts: Mapping[str, int], start: int, end: int
) -> tuple[Numbers, Numbers | None]:
    """The values of the windows from `start` to before `end` of each site, as `values` has them, and for a rule with a
    deviation those of the same windows of the last WEEKS weeks, on a new first axis. NaN before the first window of a
    site, which `firsts` has."""
    sites, since = tuple(firsts), np.array(list(firsts.values()))[:, None]

    def shifted(by: int) -> Numbers:
        known = np.arange(start - by, end - by)[None, :] >= since
        return np.where(known, values(rows, rule, sites, start - by, end - by), np.nan)

    if rule.deviation is None:
        return shifted(0), None
    return shifted(0), np.stack([shifted(week * _WEEK // rule.seconds) for week in range(1, WEEKS + 1)])


def values(rows: Rows, rule: Rule, sites: Sequence[str], start: int, end: int) -> Numbers:
    """The metric of each site (row) in the windows from `start` to before `end` (column); NaN where a share has no
    requests, or no request has a duration. All reads are bounded by the time of the windows."""
    share = rule.metric == "p95" or rule.metric in SHARES
    matrix = np.full((len(sites), max(0, end - start)), np.nan if share else 0.0)
    if not matrix.size:
        return matrix
    first, last = (time_of(window, rule.seconds) for window in (start, end))
    windows = _metric(rows, rule, Selection(None, first, last, filters=rule.filters), sites)
    micros = windows["bin"].dt.as_unit("us").astype("int64").to_numpy()
    site = pd.Index(sites).get_indexer(pd.Index(windows["site"]))
    matrix[site, micros // (rule.seconds * 1_000_000) - start] = windows["value"]
    return matrix


def bounds(rule: Rule, values: Numbers, history: Numbers | None) -> tuple[Numbers, Numbers]:
    """The lower and the upper bound of each window of the `values`, infinite where there is none. `history` as of
    `series`."""
    lower = np.full(values.shape, -np.inf if rule.below is None else rule.below)
    upper = np.full(values.shape, np.inf if rule.above is None else rule.above)
    if rule.deviation is None or history is None:
        return lower, upper
    middle, spread = usual(history)
    usable = np.isfinite(middle) & (spread > 0)
    distance = np.where(usable, rule.deviation * MAD_SCALE * np.where(usable, spread, 0), np.inf)
    middle = np.where(usable, middle, 0)
    return np.maximum(lower, middle - distance), np.minimum(upper, middle + distance)


def usual(history: Numbers) -> tuple[Numbers, Numbers]:
    """Median and median absolute deviation over the first axis, NaN where fewer than LEAST_WEEKS values are known."""
    enough = np.isfinite(history).sum(axis=0) >= LEAST_WEEKS
    some = np.where(enough, history, 0.0)
    middle = np.nanmedian(some, axis=0)
    spread = np.nanmedian(np.abs(some - middle), axis=0)
    return np.where(enough, middle, np.nan), np.where(enough, spread, np.nan)


def _metric(rows: Rows, rule: Rule, selection: Selection, sites: Sequence[str]) -> pd.DataFrame:
    """Columns `site`, `bin`, `value` of the windows that have requests."""
    seconds, metric, part = rule.seconds, rule.metric, SHARES.get(rule.metric)
    where: tuple[Condition, ...] = (Where("site", "in", tuple(sites)),)
    if metric == "p95":
        counts = latency.counts(rows, selection, seconds, by=["site"], where=where)
        return quantiles(counts, ["site", "bin"], FINE).rename(columns={"p95": "value"})
    if rule.goal is not None:
        kept = (*conditions.of_lines(selection), *where, *requests_of(rule))
        columns: Columns = {"site": "site", "bin": time_bin("event_time", seconds), "value": count()}
        return rows(query(silver.REQUESTS, columns, kept, group_by=["site", "bin"]))
    names = ["requests", part] if part else [metric]
    base = LINES.of(TRAFFIC) if part else LINES.of(TRAFFIC, AUDIENCE)
    if metric == "not_found":
        names, base, where = ["requests"], LINES.of(RESPONSES), (*where, *requests_of(rule))
    windows = measured(rows, selection, base, names, by=["site"], bin_seconds=seconds, where=where)
    return windows.assign(value=windows[part] / windows["requests"] if part else windows[names[0]])
