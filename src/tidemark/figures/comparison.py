"""The earlier period that a range is compared with, and changes between the two.

"Now" is the newest event, at most the clock, to the full minute. The previous period has equal length and lies right
before; the same period of last year lies 364 days back, so that weekdays agree. A range that reaches now is
compared with the same elapsed part. A range of a calendar unit, such as this month, is compared with the unit before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from tidemark.figures import calendar
from tidemark.figures.calendar import Unit
from tidemark.figures.extents import Extent
from tidemark.figures.selection import Selection

YEAR = timedelta(days=364)
MINUTE = 60


@dataclass(frozen=True)
class Change:
    """A figure of the range and of the earlier period."""

    now: float | None
    before: float | None

    @property
    def ratio(self) -> float | None:
        """(now - before) / before; None where one of them is unknown, or before is 0."""
        if self.now is None or not self.before:
            return None
        return (self.now - self.before) / self.before

    @property
    def is_new(self) -> bool:
        """Whether there is something where nothing was before."""
        return self.before == 0 and bool(self.now)

    @property
    def sorted_by(self) -> float | None:
        """The ratio; infinite where `is_new`."""
        return math.inf if self.is_new else self.ratio

    def __str__(self) -> str:
        """Such as +12.5%, "new", or nothing where there is no change to speak of."""
        return "" if self.sorted_by is None else change_text(self.sorted_by)

    @property
    def points(self) -> str:
        """The difference of two shares in percentage points, or nothing."""
        if self.now is None or self.before is None:
            return ""
        return f"{100 * (self.now - self.before):+.1f} pp"

    @property
    def short(self) -> str:
        """The same without a decimal."""
        return "" if self.sorted_by is None else change_text(self.sorted_by, decimals=0)


def change_text(ratio: float, decimals: int = 1) -> str:
    """A change as text; an infinite one is "new", and one that is rounded to nothing has no sign."""
    if math.isinf(ratio):
        return "new"
    rounded = round(ratio, decimals + 2)
    return f"{rounded:+,.{decimals}%}" if rounded else f"{0:.{decimals}%}"


def known(value: Any) -> float | None:
    """A figure; None for one that is missing or NaN."""
    return None if pd.isna(value) else float(value)


def earlier(selection: Selection, extent: Extent, clock: datetime) -> Selection | None:
    """The selection of the period to compare with; `extent` is that of the selection's site.

    None where the selection asks for none, nothing is known of the time before, or the earlier period begins before
    the site's first line.
    """
    if not selection.comparison or selection.start is None or extent.first is None or extent.newest is None:
        return None
    now = _minute_after(min(extent.newest, clock))
    start, end = selection.start, selection.end or now
    if start >= end:
        return None
    until = max(start, min(end, now))
    if selection.unit is not None:
        before, until_before = _unit_before(selection, selection.unit, start, until)
    else:
        back = YEAR if selection.comparison == "year" else end - start
        before, until_before = start - back, until - back
    if before < extent.first:
        return None
    return replace(selection, start=before, end=until_before, comparison="", unit=None)


def _unit_before(
    selection: Selection, unit: Unit, start: datetime, until: datetime
) -> tuple[datetime, datetime]:
    """The same elapsed part of the calendar unit before; a year before, days and weeks keep their weekday."""
    if selection.comparison == "year":
        if unit in ("day", "week"):
            return start - YEAR, until - YEAR
        unit = "year"
    return calendar.back(start, unit, selection.zone), calendar.back(until, unit, selection.zone)


def _minute_after(moment: datetime) -> datetime:
    """The first full minute after a moment, which an event of that moment precedes."""
    return datetime.fromtimestamp((int(moment.timestamp()) // MINUTE + 1) * MINUTE, UTC)
