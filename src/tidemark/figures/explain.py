"""The values that account for the change of a figure between two periods.

Every dimension splits the figure of both periods by its values. The change of a value is its count now less its count
before, and its share is that change divided by the change of the figure. A share of one figure in another, such as
`bounce_rate`, is split likewise: the counts of its values are divided by the whole period's denominator, so their
changes add up to the change of the rate.

Small parts are one row `other`. A visitor or a session with several values of a dimension counts for each of them; the
row `overlap` subtracts these repetitions, so the rows of every dimension add up to the figure, before and now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import comparison, conditions, goals, silver
from tidemark.figures.declared import GOAL, Declared
from tidemark.figures.extents import Extent
from tidemark.figures.measures import (
    AUDIENCE,
    COUNTRIES,
    LINES,
    NETWORKS,
    PAGES,
    RESPONSES,
    SESSIONS,
    SOURCES,
    TRAFFIC,
    Base,
    Gold,
    has,
    measured,
)
from tidemark.figures.query import Columns, Condition, Where, as_text, filled, query
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection, SelectionError

# Dimensions and their fields. Of sessions, a page is the one on which they began.
DIMENSIONS: Mapping[str, str] = {
    "page": "path", "source": "source", "campaign": "campaign", "country": "country", "network": "network",
    "bot": "bot_name", "status": "status", "host": "host", "device": "device",
}  # fmt: skip
# Names of the empty value of each dimension.
MISSING: Mapping[str, str] = {
    "page": "(no path)", "source": "(no source)", "campaign": "(no campaign)", "country": "(unknown)",
    "network": "(other networks)", "bot": "people", "status": "(no status)", "host": "(no host)", "device": "(unknown)",
}  # fmt: skip
# Values of a dimension that have rows of their own, and the least part in its changes that gives a value one.
MOST_VALUES, LEAST_PART = 8, 0.01
VALUE, OTHER, OVERLAP = "value", "other", "overlap"
COLUMNS = (
    "dimension", "kind", "value", "now", "before", "change", "share", "share_before", "filters",
)  # fmt: skip
_PEOPLE = Filter("bot_kind", "is", ("",))
# What the dimensions are of a line, of a session, and of a session's pageviews.
_OF_LINE: Columns = {
    "page": filled("path"), "source": filled("source"), "campaign": conditions.OF_LINE["campaign"],
    "country": "country", "network": filled("network"), "bot": filled("bot_name"), "status": as_text("status"),
    "host": filled("host"), "device": filled("device"),
}  # fmt: skip
_OF_SESSION: Columns = {
    "page": filled("entry_page"), "source": filled("source"), "campaign": filled("campaign"),
    "country": "country", "device": filled("device"),
}  # fmt: skip
_OF_VIEW: Columns = {each: _OF_LINE[each] for each in ("network", "status", "host")}


@dataclass(frozen=True)
class Metric:
    """A measure of `base` over the rows that `filters` and `where` keep, or its ratio to the measure `per` of all rows.

    `lines` are further filters of the lines behind it.
    """

    measure: str
    base: Base = LINES
    filters: tuple[Filter, ...] = ()
    where: tuple[Condition, ...] = ()
    per: str = ""
    lines: tuple[Filter, ...] = ()


_FAILED_5XX = (Filter("status", "starts with", ("5",)),)
_BOTS = (Filter("bot_kind", "is not", ("",)),)
METRICS: Mapping[str, Metric] = {
    "requests": Metric("requests"),
    "pageviews": Metric("pageviews", lines=(_PEOPLE,)),
    "visitors": Metric("visitors", lines=(_PEOPLE,)),
    "sessions": Metric("sessions", SESSIONS, lines=(_PEOPLE,)),
    "bounces": Metric("bounces", SESSIONS, lines=(_PEOPLE,)),
    "bounce_rate": Metric("bounces", SESSIONS, per="sessions", lines=(_PEOPLE,)),
    "bytes": Metric("bytes"),
    "bot_requests": Metric("requests", filters=_BOTS),
    "share_bots": Metric("requests", filters=_BOTS, per="requests"),
    "not_found": Metric("requests", filters=(Filter("status", "is", ("404",)),)),
    "status_4xx": Metric("requests", filters=(Filter("status", "starts with", ("4",)),)),
    "status_5xx": Metric("requests", filters=_FAILED_5XX),
    "share_5xx": Metric("requests", filters=_FAILED_5XX, per="requests"),
}
# Gold tables with a measure by a field; without a field, of all rows.
_OF_AUDIENCE = dict.fromkeys(("requests", "pageviews", "bytes", "visitors"), (AUDIENCE,))
_GOLDS: Mapping[str, Mapping[str, tuple[Gold, ...]]] = {
    "": {
        "requests": (TRAFFIC, AUDIENCE, RESPONSES),
        "bytes": (TRAFFIC, AUDIENCE, RESPONSES),
        "pageviews": (TRAFFIC, AUDIENCE),
        "visitors": (TRAFFIC, AUDIENCE),
    },
    "path": {"pageviews": (PAGES,)},
    "country": {name: (AUDIENCE,) if name == "bytes" else (COUNTRIES, AUDIENCE) for name in _OF_AUDIENCE},
    "device": _OF_AUDIENCE,
    "network": dict.fromkeys(("requests", "pageviews", "visitors"), (NETWORKS,)),
    "status": dict.fromkeys(("requests", "bytes"), (RESPONSES,)),
    "host": dict.fromkeys(("requests", "bytes"), (RESPONSES,)),
    "source": dict.fromkeys(("sessions", "bounces"), (SOURCES,)),
    "campaign": dict.fromkeys(("sessions", "bounces"), (SOURCES,)),
}
# Measures of which one thing may count for several values of a dimension.
_REPEATED = {"visitors": "visitor", "sessions": "session", "bounces": "session"}


@dataclass(frozen=True)
class Explained:
    """`now` and `before` of a figure (None where a rate has no denominator), and rows with the columns COLUMNS: values
    first, the largest change first.

    The rows of a dimension add up to the figure. `kind` is VALUE, OTHER or OVERLAP; the empty `value` stands for what
    is missing. `share` is the part of the change (None without a change), `share_before` that of the figure before.
    `filters`, added to the selection, keep the lines of a row; an overlap has none. `same` lists the dimensions in
    which all have the same value. `overlaps` says by dimension what counts several times.
    """

    metric: str
    selection: Selection
    period: Selection
    now: float | None
    before: float | None
    rows: pd.DataFrame = field(repr=False)
    same: tuple[str, ...] = ()
    overlaps: Mapping[str, str] = field(default_factory=dict)

    @property
    def change(self) -> float | None:
        return None if self.now is None or self.before is None else self.now - self.before


def metric_of(name: str, declared: Declared | None = None) -> Metric:
    """A metric by its name, `goal:NAME` for the requests of people that match a goal. Raises SelectionError."""
    if name.startswith(GOAL) and declared and (goal := declared.goals.get(name.removeprefix(GOAL))):
        return Metric("requests", where=goals.matching(goal), lines=(_PEOPLE,))
    if name not in METRICS:
        raise SelectionError(
            f"name: there is no metric {name!r} to explain",
            f"Choose {', '.join(METRICS)}, or goal:NAME of a goal.",
        )
    return METRICS[name]


def period_before(selection: Selection, extent: Extent, clock: datetime | None = None) -> Selection:
    """The period before, of equal length; `extent` is that of the selection's site. Raises SelectionError if the range
    has no beginning, or the site's lines begin later than that period."""
    compared = replace(selection, comparison=selection.comparison or "previous")
    period = comparison.earlier(compared, extent, clock or datetime.now(UTC))
    if period is not None:
        return period
    if selection.start is None:
        raise SelectionError("from: the range has no beginning", "Give from, or a range such as 24h.")
    first = (
        "there are no lines"
        if extent.first is None
        else f"the first line is of {extent.first:%Y-%m-%d %H:%M} UTC"
    )
    raise SelectionError(
        f"from: {first}, within the period before the range", "Give a later or a shorter range."
    )


def explain(
    rows: Rows,
    name: str,
    selection: Selection,
    period: Selection,
    declared: Declared | None = None,
    *,
    quick: bool = False,
) -> Explained:
    """Why a metric differs between a selection and an earlier period; `quick` only by the dimensions that gold tables
    have. Raises SelectionError for an unknown metric, and ReadError."""
    metric, ranges = metric_of(name, declared), (selection, period)
    totals = [_total(rows, each, metric) for each in ranges]
    whole = [_total(rows, each, Metric(metric.per, metric.base)) if metric.per else 1 for each in ranges]
    now, before = (
        (total / n if n else None) if metric.per else total for total, n in zip(totals, whole, strict=True)
    )
    explained = Explained(name, selection, period, now, before, pd.DataFrame(columns=list(COLUMNS)))
    if now is None or before is None:
        return explained
    counts = [_by_value(rows, each, metric, quick=quick) for each in ranges]
    parts: list[dict[str, Any]] = []
    same = []
    for dimension in (each for each in DIMENSIONS if all(each in table for table in counts)):
        pair = pd.DataFrame({"now": counts[0][dimension], "before": counts[1][dimension]}).fillna(0)
        pair = pair[(pair != 0).any(axis=1)].astype("int64")
        if len(pair) < 2:
            same.append(dimension)
        else:
            parts += _rows_of(dimension, pair, np.array(totals), np.array(whole), metric)
    table = pd.DataFrame(parts, columns=["dimension", "kind", "value", "now", "before", "filters"])
    if metric.per:
        table[["now", "before"]] /= np.array(whole)
    change = table["now"] - table["before"]
    table = table.assign(
        change=change,
        share=change / (now - before) if now != before else None,
        share_before=table["before"] / before if before else None,
    )
    usual = table["share_before"].astype("float64").fillna(0)
    order = np.lexsort((usual, -change.abs(), table["kind"] != VALUE))
    repeated = table.loc[table["kind"] == OVERLAP, "dimension"]
    who = _REPEATED.get(metric.measure)
    return replace(
        explained,
        rows=table.take(order).reset_index(drop=True)[list(COLUMNS)],
        same=tuple(same),
        overlaps=dict.fromkeys(repeated, f"A {who} with several values counts for each of them."),
    )


def _rows_of(
    dimension: str, pair: pd.DataFrame, totals: np.ndarray, whole: np.ndarray, metric: Metric
) -> Iterator[dict[str, Any]]:
    """The rows of a dimension whose values have the counts `now` and `before` of `pair`; counts, also of a rate."""
    name = _entry_or(dimension, metric)

    def row(kind: str, value: str, numbers: Any, filters: tuple[Filter, ...]) -> dict[str, Any]:
        texts = tuple(map(str, Selection().having(*metric.filters, *metric.lines, *filters).filters))
        counts = dict(zip(("now", "before"), map(int, numbers), strict=True))
        return {"dimension": dimension, "kind": kind, "value": value, "filters": texts, **counts}

    weight = (pair["now"] / whole[0] - pair["before"] / whole[1]).abs()
    ordered = (
        pair.assign(weight=weight).rename_axis("by").sort_values(["weight", "by"], ascending=[False, True])
    )
    large = int((ordered["weight"] >= max(LEAST_PART * weight.sum(), np.finfo(float).tiny)).sum())
    large = min(large, MOST_VALUES)
    # A row for a single value says more than one for other values.
    large += large == len(ordered) - 1
    pair = ordered[["now", "before"]]
    shown = pair.head(large)
    for value, numbers in shown.iterrows():
        yield row(VALUE, str(value), numbers, (Filter(name, "is", (str(value),)),))
    every = pair.sum().to_numpy()
    overlapping = metric.measure in _REPEATED
    rest = (every if overlapping else totals) - shown.sum().to_numpy()
    if rest.any():
        without = tuple(map(str, shown.index))
        yield row(OTHER, OTHER, rest, (Filter(name, "is not", without),) if without else ())
    if overlapping and (totals != every).any():
        yield row(OVERLAP, OVERLAP, totals - every, ()) | {"filters": ()}


def _entry_or(dimension: str, metric: Metric) -> str:
    """The field of a dimension: of sessions, a page is the one on which they began."""
    return "entry_page" if dimension == "page" and metric.base is SESSIONS else DIMENSIONS[dimension]


def _total(rows: Rows, selection: Selection, metric: Metric) -> int:
    kept = selection.having(*metric.filters)
    golds = () if metric.where else _GOLDS[""].get(metric.measure, ())
    counted = measured(rows, kept, metric.base.of(*golds, only=metric.where), [metric.measure])
    return int(counted[metric.measure].iloc[0])


def _by_value(rows: Rows, selection: Selection, metric: Metric, *, quick: bool) -> dict[str, pd.Series]:
    """The measure by value (text) of every dimension, or of those that gold tables have."""
    kept = selection.having(*metric.filters)
    counts: dict[str, pd.Series] = {}
    for dimension, name in DIMENSIONS.items():
        golds = () if metric.where else _GOLDS.get(name, {}).get(metric.measure, ())
        if any(has(rows, gold, kept) for gold in golds):
            counted = measured(rows, kept, metric.base.of(*golds), [metric.measure], by=[name])
            # Gold has 0 for a missing status.
            texts = counted[name].astype(str).replace({"0": ""} if name == "status" else {})
            counts[dimension] = counted.set_index(texts)[metric.measure]
    if quick:
        return counts
    others = [dimension for dimension in DIMENSIONS if dimension not in counts]
    if metric.base is SESSIONS:
        # Sessions are those of people.
        own: Columns = {each: _OF_SESSION[each] for each in others if each in _OF_SESSION}
        parts = _apart(rows, kept, metric, own) | _of_views(rows, kept, metric)
        return counts | {"bot": pd.Series({"": 1})} | parts
    columns: Columns = {each: _OF_LINE[each] for each in others}
    return counts | _apart(rows, kept, metric, columns)


def _apart(rows: Rows, selection: Selection, metric: Metric, columns: Columns) -> dict[str, pd.Series]:
    """The measure by each of the columns, in one read."""
    if not columns:
        return {}
    where = (*metric.base.where(selection, rows), *metric.where)
    measure = metric.base.measures[metric.measure]
    wanted = query(metric.base.table, {**columns, "n": measure}, where, group_by=list(columns), apart=True)
    counted = rows(wanted)
    # Only a status may be NULL in its own group.
    none = counted[list(columns)].isna().all(axis=1)
    parts = {each: counted[counted[each].notna() | (none & (each == "status"))] for each in columns}
    return {each: part.set_index(part[each].fillna(""))["n"] for each, part in parts.items()}


def _of_views(rows: Rows, selection: Selection, metric: Metric) -> dict[str, pd.Series]:
    """The sessions that have at least one pageview with a value, by value."""
    names = ["site", "visitor_id", "session_id", "start_time", "end_time", "bounced"]
    sessions = rows(
        query(silver.SESSIONS, names, conditions.of_sessions(selection, rows), counted=True)
    ).sort_values("start_time")
    if metric.measure == "bounces":
        sessions = sessions[sessions["bounced"]]
    if sessions.empty:
        return dict.fromkeys(_OF_VIEW, pd.Series(dtype="int64"))
    lines = [f for f in selection.filters if f.field not in conditions.OF_VISITOR | conditions.OF_SESSION]
    where = (
        *conditions.of_site(selection),
        Where("event_time", ">=", sessions["start_time"].min().to_pydatetime()),
        Where("event_time", "<=", sessions["end_time"].max().to_pydatetime()),
        silver.VIEW,
        *conditions.passing(lines),
    )
    columns: Columns = {name: name for name in ("site", "visitor_id", "event_time")}
    views = rows(query(silver.REQUESTS, columns | _OF_VIEW, where, counted=True)).sort_values("event_time")
    # A visitor's sessions do not overlap, so a pageview lies in the last one that started before.
    both = pd.merge_asof(
        views, sessions, left_on="event_time", right_on="start_time", by=["site", "visitor_id"]
    )
    both = both[both["event_time"] <= both["end_time"]]
    return {
        name: both[["session_id", name]].fillna("").drop_duplicates().groupby(name).size()
        for name in _OF_VIEW
    }


def outstanding(explained: Explained, limit: int) -> pd.DataFrame:
    """The values that changed most, and not just as everything did, with the columns COLUMNS; at most two of a
    dimension."""
    values = explained.rows[explained.rows["kind"] == VALUE]
    usual = values["share_before"].astype("float64").fillna(0) * (explained.change or 0)
    both = pd.DataFrame({"change": values["change"].abs(), "more": (values["change"] - usual).abs()})
    weight = both.min(axis=1)
    order = weight[weight > 0].sort_values(ascending=False, kind="stable").index
    outstanding: pd.DataFrame = (
        values.loc[order].groupby("dimension", sort=False).head(2).head(limit).reset_index(drop=True)
    )
    return outstanding
