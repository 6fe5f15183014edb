"""Retention: of the visitors who first came in a period, how many came back in each later one.

A cohort is the period (day, ISO week or month, UTC) of a visitor's first request over all data of the site. Sets of
visitors are unions of theta sketches, exact up to 2^20 visitors a set; beyond, counts are estimates with a standard
error. A filter keeps the lines that pass: then visitors are counted from silver, always exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures import conditions, silver
from tidemark.figures.calendar import first_day
from tidemark.figures.extents import Extent
from tidemark.figures.known import require_known
from tidemark.figures.periods import Every
from tidemark.figures.periods import of as period_of
from tidemark.figures.query import query, time_bin
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import PEOPLE
from tidemark.figures.sketches import WHOLE, Distinct
from tidemark.figures.visitors import DAY, daily

VISITOR_HOURS = "gold/visitor_hours"


@dataclass(frozen=True)
class Retention:
    """`periods` are the starts of all periods from the first to the newest; `matrix[c, n]` is the number of visitors of
    cohort c who came in the period n after it, n = 0 being the cohort itself. Periods from `open_from` on were not over
    at the site's newest event. `share` is the part of the hashes that were kept: 1 where every count is exact."""

    periods: tuple[date, ...]
    matrix: np.ndarray
    open_from: date | None
    share: float = 1.0

    @property
    def sizes(self) -> np.ndarray:
        """Visitors of each cohort."""
        return self.matrix[:, 0] if self.periods else np.zeros(0)

    def is_open(self, cohort: int, after: int) -> bool:
        """Whether the cell's period may still get visitors."""
        return self.open_from is not None and self.periods[cohort + after] >= self.open_from

    def error(self, count: float) -> float:
        """Standard error of a count."""
        return float(np.sqrt(count * (1 - self.share) / self.share))

    def returned(self, cohort: int) -> list[int]:
        """The cohort's visitors in each period from its own to the newest."""
        row = self.matrix[cohort, : len(self.periods) - cohort]
        return [round(float(count)) for count in row]

    def new_and_returning(self) -> pd.DataFrame:
        """Columns `period`, `new`, `returning`: the visitors of each period who came for the first time, or again."""
        number = len(self.periods)
        cohort, after = np.nonzero(self.matrix)
        every = np.bincount(cohort + after, self.matrix[cohort, after], number)
        new = [round(float(size)) for size in self.sizes]
        again = [round(float(all_)) - n for all_, n in zip(every, new, strict=True)]
        return pd.DataFrame({"period": list(self.periods), "new": new, "returning": again})


def retention(rows: Rows, selection: Selection, by: Every, extent: Extent) -> Retention:
    """Cohorts of the selection's site, whose extent is `extent`. The range does not matter, because a first request is
    one over all data. Raises NotKnownError where visitors are known for a day only."""
    require_known(rows.reader, selection.site, "Retention, and who returns, are")
    everything = Selection(selection.site, filters=selection.filters)
    days = _from_silver(rows, everything) if selection.filters else _from_gold(rows, everything)
    sets = {site: _in_periods(days_of, by) for site, days_of in days.items()}
    starts = sorted({start for days_of in sets.values() for start in days_of})
    if not starts:
        return Retention((), np.zeros((0, 0)), None)
    open_from = first_day(extent.newest.date(), by) if extent.newest else None
    periods = tuple(_from_to(starts[0], max(starts[-1], open_from or starts[-1]), by))
    theta = min(each.theta for days_of in sets.values() for each in days_of.values())
    share = float(theta) / float(WHOLE)
    matrix = np.sum([_matrix(days_of, periods, theta) for days_of in sets.values()], axis=0) / share
    return Retention(periods, matrix, open_from, share)


def within(counted: Retention, selection: Selection, *, empty: bool = False) -> list[int]:
    """The numbers of the cohorts that begin in the selection's range and have visitors; with `empty`, of all."""
    first = selection.start.date() if selection.start else date.min
    last = (selection.end - timedelta(microseconds=1)).date() if selection.end else date.max
    return [
        i for i, p in enumerate(counted.periods) if first <= p <= last and (empty or counted.sizes[i] > 0)
    ]


def _from_to(first: date, last: date, by: Every) -> list[date]:
    starts = [first]
    while starts[-1] < last:
        starts.append(period_of(by, starts[-1], "UTC").last)
    return starts


def _from_gold(rows: Rows, selection: Selection) -> dict[str, dict[date, Distinct]]:
    where = conditions.within(selection, "window_start")
    days_of: dict[str, dict[date, Distinct]] = {}
    for day, (_, united) in daily(rows, VISITOR_HOURS, where).items():
        for (site, _), visitors in united.items():
            days_of.setdefault(site, {})[day.date()] = visitors
    return days_of


def _from_silver(rows: Rows, selection: Selection) -> dict[str, dict[date, Distinct]]:
    columns: dict[str, Any] = {"site": "site", "day": time_bin("event_time", DAY), "visitor": "visitor_id"}
    where = (*conditions.of_lines(selection), PEOPLE)
    pairs = rows(query(silver.REQUESTS, columns, where, group_by=list(columns), counted=True))
    numbers = pd.factorize(pairs["visitor"])[0].astype(np.uint64)
    sets: dict[str, dict[date, Distinct]] = {}
    indices: dict[Any, Any] = pairs.groupby(["site", "day"]).indices
    for (site, day), members in indices.items():
        sets.setdefault(site, {})[day.date()] = Distinct(numbers[members])
    return sets


def _in_periods(days: Mapping[date, Distinct], by: Every) -> dict[date, Distinct]:
    parts: dict[date, list[Distinct]] = {}
    for day, visitors in days.items():
        parts.setdefault(first_day(day, by), []).append(visitors)
    return {
        start: Distinct(np.concatenate([v.given for v in sketches]), min(v.theta for v in sketches))
        for start, sketches in parts.items()
    }


def _matrix(sets: Mapping[date, Distinct], periods: tuple[date, ...], theta: np.uint64) -> np.ndarray:
    """Counts of hashes below `theta`: each hash belongs to the cohort of the first period that has it."""
    number = len(periods)
    matrix = np.zeros((number, number))
    seen, cohorts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for index, period in enumerate(periods):
        if period not in sets:
            continue
        hashes = sets[period].hashes
        hashes = hashes[hashes < theta] if theta != WHOLE else hashes
        place = np.searchsorted(seen, hashes)
        again = np.zeros(len(hashes), bool)
        inside = place < len(seen)
        again[inside] = seen[place[inside]] == hashes[inside]
        came = np.bincount(cohorts[place[again]], minlength=number)
        new = hashes[~again]
        matrix[np.arange(index), index - np.arange(index)] += came[:index]
        matrix[index, 0] += len(new)
        order = np.argsort(np.concatenate((seen, new)), kind="stable")
        seen = np.concatenate((seen, new))[order]
        cohorts = np.concatenate((cohorts, np.full(len(new), index)))[order]
    return matrix
