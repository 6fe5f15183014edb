"""The content of a report by mail: figures with their change, the largest movements, and the first rows of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from tidemark.figures import (
    alerts,
    counted,
    countries,
    errors,
    explain,
    extents,
    latency,
    notes,
    overview,
    pages,
    sources,
)
from tidemark.figures.bins import every_bin
from tidemark.figures.comparison import Change
from tidemark.figures.counted import Counted
from tidemark.figures.declared import Declared
from tidemark.figures.periods import Every, Period
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Filter, Selection

MOST_ROWS = 5
# Failed requests are explained if they rose by this much, at least.
_MUCH, _LEAST = 0.2, 10
# Seconds of the bins over time.
BINS: dict[Every, int] = {"day": 3600, "week": 6 * 3600, "month": 86_400}


@dataclass(frozen=True)
class Figure:
    """A main figure. `kind`: count, share or seconds. `good`: whether more is better; None for neither."""

    name: str
    change: Change
    kind: str = "count"
    good: bool | None = None


@dataclass(frozen=True)
class Row:
    """A row of a list: a label, its count, and how that changed."""

    label: str
    count: int
    change: Change


@dataclass(frozen=True)
class Moved:
    """Why a metric changed: `rows` with `explain.COLUMNS` of the values that stand out."""

    name: str
    change: Change
    rows: pd.DataFrame = field(repr=False)

    def each(self) -> list[tuple[Any, tuple[str, ...]]]:
        """The rows, each with its filters."""
        return list(zip(self.rows.itertuples(), self.rows["filters"], strict=True))


@dataclass(frozen=True)
class Digest:
    """A period of a site (empty: all sites). `compared`: the period before, None where the site's lines begin later.

    `over_time` and `before` have the columns `bin` (UTC), `visitors`, `status_4xx`, `status_5xx`. `lists` has rows by
    heading. `began` are alerts that began in the period, oldest first. `newest`: the newest line's time.
    """

    site: str
    period: Period
    compared: Period | None
    filters: tuple[str, ...]
    figures: tuple[Figure, ...]
    over_time: pd.DataFrame = field(repr=False)
    before: pd.DataFrame = field(repr=False)
    moved: tuple[Moved, ...]
    lists: dict[str, tuple[Row, ...]]
    began: pd.DataFrame = field(repr=False)
    notes: pd.DataFrame = field(repr=False)
    newest: datetime | None

    @property
    def is_empty(self) -> bool:
        """Whether the period has no request."""
        return not next(each.change.now for each in self.figures if each.name == "Requests")


def digest(
    rows: Rows, site: str, period: Period, filters: Sequence[Filter] = (), declared: Declared | None = None
) -> Digest:
    """The digest of a period. Raises ReadError."""
    extent = extents.of_site(extents.extents(rows), site or None)
    now = Selection(site or None, period.start, period.end, period.zone, tuple(filters))
    if any(table.startswith("gold.") for table in extents.incomplete(rows)):
        now = replace(now, recount=True)
    known = extent.first is not None and period.before.start >= extent.first
    before = now.shifted(period.before.start, period.before.end) if known else None
    return Digest(
        site=site,
        period=period,
        compared=period.before if known else None,
        filters=tuple(map(str, filters)),
        figures=_figures(rows, now, before),
        over_time=_over_time(rows, now, period),
        before=pd.DataFrame() if before is None else _over_time(rows, before, period.before),
        moved=_moved(rows, now, before, declared),
        lists=_lists(rows, now, before),
        began=_began(rows, now),
        notes=notes.notes(rows, site or None, period.start, period.end),
        newest=extent.newest,
    )


def _figures(rows: Rows, now: Selection, before: Selection | None) -> tuple[Figure, ...]:
    overviews = [None if each is None else overview.overview(rows, each) for each in (now, before)]
    quick = [None if each is None else latency.latency(rows, each) for each in (now, before)]
    failed = [None if each is None else _failed(rows, each) for each in (now, before)]

    def of(parts: Sequence[Any], name: str) -> Change:
        return Change(*(None if part is None else getattr(part, name) for part in parts))

    figures = [
        Figure("Visitors", of(overviews, "visitors"), good=True),
        Figure("Pageviews", of(overviews, "pageviews"), good=True),
        Figure("Sessions", of(overviews, "sessions"), good=True),
        Figure("Bounce rate", of(overviews, "bounce_rate"), "share"),
        Figure("Requests", of(overviews, "requests")),
        Figure("Failed requests", Change(*failed), good=False),
    ]
    if quick[0] is not None and quick[0].timed:
        figures.append(Figure("Response time, p95", of(quick, "p95"), "seconds", good=False))
    return tuple(figures)


def _failed(rows: Rows, selection: Selection) -> int:
    failures = errors.errors(rows, selection)
    return int(failures["requests"].sum())


def _over_time(rows: Rows, selection: Selection, period: Period) -> pd.DataFrame:
    """The bins of a period, of one that is not over up to now."""
    seconds = BINS[period.every]
    visitors = overview.over_time(rows, selection, seconds)[["bin", "visitors"]]
    classes = errors.classes_over_time(rows, selection, seconds)[["bin", "status_4xx", "status_5xx"]]
    merged = visitors.merge(classes, on="bin", how="outer").fillna(0)
    until = min(period.end - timedelta(microseconds=1), datetime.now(UTC))
    return every_bin(merged, period.start, until, seconds, [*merged.columns[1:]], period.zone)


def _moved(
    rows: Rows, now: Selection, before: Selection | None, declared: Declared | None
) -> tuple[Moved, ...]:
    """Why pageviews changed, and failed requests if there are many more of them."""
    if before is None:
        return ()
    moved = []
    for name, metric in (("Pageviews", "pageviews"), ("404 not found", "not_found"), ("5xx", "status_5xx")):
        why = explain.explain(rows, metric, now, before, declared)
        change = Change(why.now, why.before)
        rose = (why.change or 0) >= max(_LEAST, _MUCH * (why.before or 0))
        if why.change and (metric == "pageviews" or rose):
            moved.append(Moved(name, change, explain.outstanding(why, MOST_ROWS)))
    return tuple(moved)


def _lists(rows: Rows, now: Selection, before: Selection | None) -> dict[str, tuple[Row, ...]]:
    source = ("source", "channel")

    def listed(frame: pd.DataFrame, of: Counted, label: Callable[[Any], str]) -> tuple[Row, ...]:
        top = frame.head(MOST_ROWS)
        changed = counted.changes(rows, of, top, now, before, known=True)
        named = top.itertuples(index=False)
        return tuple(
            Row(label(row), int(getattr(row, of.name)), change)
            for row, change in zip(named, changed, strict=True)
        )

    return {
        "Pages": listed(pages.pages(rows, now, MOST_ROWS), pages.COUNTED, lambda row: row.path),
        "Sources": listed(
            sources.sources(rows, now, source, MOST_ROWS),
            sources.counted(source),
            lambda row: row.source or row.channel,
        ),
        "Countries": listed(
            countries.countries(rows, now, MOST_ROWS), countries.counted("country"), lambda row: row.country
        ),
        "Errors": listed(
            errors.errors(rows, now, limit=MOST_ROWS), errors.COUNTED, lambda row: f"{row.status} {row.path}"
        ),
    }


def _began(rows: Rows, now: Selection) -> pd.DataFrame:
    """The alerts that began in the range and still stand, oldest first."""
    fired = alerts.alerts(rows, now)
    began = fired["window_start"] >= now.start
    return fired[began & (fired["state"] != "withdrawn")].iloc[::-1].reset_index(drop=True)
