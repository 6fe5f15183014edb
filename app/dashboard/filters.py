"""The choices of the filter bar: site, time range, comparison, zone and conditions on fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark.figures import calendar
from tidemark.figures.calendar import Unit
from tidemark.figures.extents import Extent
from tidemark.figures.query import Where
from tidemark.figures.selection import Comparison, Filter, Selection
from tidemark.figures.zones import floor

from . import clock

# Preset, how far it reaches back, and the time bin that its charts use.
PRESETS: dict[str, tuple[timedelta, int]] = {
    "15m": (timedelta(minutes=15), 60),
    "1h": (timedelta(hours=1), 60),
    "24h": (timedelta(hours=24), 1800),
    "7d": (timedelta(days=7), 7200),
    "30d": (timedelta(days=30), 21_600),
}
# Ranges of the calendar in the chosen zone: the unit that they begin with, whether it is the one before the present
# unit, and the time bin of their charts.
CALENDAR: dict[str, tuple[Unit, bool, int]] = {
    "today": ("day", False, 1800),
    "yesterday": ("day", True, 1800),
    "week": ("week", False, 7200),
    "month": ("month", False, 21_600),
    "last-month": ("month", True, 21_600),
    "year": ("year", False, 7 * 86_400),
}
ALL, CUSTOM = "all", "custom"
LABELS = {
    "15m": "Last 15 minutes", "1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days",
    "today": "Today", "yesterday": "Yesterday", "week": "This week", "month": "This month", "last-month": "Last month",
    "year": "Year to date", ALL: "All time", CUSTOM: "Custom",
}  # fmt: skip
RANGES = list(LABELS)
DEFAULT_RANGE = "24h"
# Ranges from a day on begin on a full hour, as most tables count hours.
HOUR, DAY = 3600, 86_400
BINS = (60, 300, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 7 * 86_400, 28 * 86_400)
MOST_BINS = 150


@dataclass(frozen=True)
class Span:
    """A range of event time, UTC: from `start` (None: the first) until before `end` (None: open)."""

    start: datetime | None
    end: datetime | None
    bin_seconds: int

    def where(self, column: str) -> tuple[Where, ...]:
        lower = () if self.start is None else (Where(column, ">=", self.start),)
        return lower if self.end is None else (*lower, Where(column, "<", self.end))


@dataclass(frozen=True)
class Filters:
    """The chosen filters. `site` None means all; `zone` is an IANA name; every condition has to hold."""

    site: str | None = None
    preset: str = DEFAULT_RANGE
    start: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"
    conditions: tuple[Filter, ...] = ()
    comparison: Comparison = "previous"

    def sites(self) -> tuple[Where, ...]:
        return () if self.site is None else (Where("site", "=", self.site),)

    def span(self, now: datetime, extent: Extent, finest: int = 60) -> Span:
        """The current range. Presets move with the clock; `finest` is the smallest useful bin."""
        if self.preset in PRESETS:
            reach, seconds = PRESETS[self.preset]
            width = max(seconds, finest)
            whole = max(width, HOUR) if reach >= timedelta(days=1) else width
            return Span(self._floor(now - reach, whole), None, width)
        if self.preset in CALENDAR:
            unit, over, seconds = CALENDAR[self.preset]
            begun = calendar.begin(now, unit, self.zone)
            first = calendar.back(begun, unit, self.zone) if over else begun
            return Span(first, begun if over else None, max(seconds, finest))
        start = self.start if self.preset == CUSTOM else None
        end = self.end if self.preset == CUSTOM else None
        first, last = start or extent.first or now, end or extent.newest or now
        width = next((b for b in BINS if (last - first).total_seconds() / b <= MOST_BINS), BINS[-1])
        return Span(start, end, max(width, finest))

    def _floor(self, moment: datetime, seconds: int) -> datetime:
        """The beginning of a bin of the zone, or of UTC where the zone's bins are not made of whole hours: most tables
        count hours of UTC."""
        local = floor(moment, seconds, self.zone)
        return local if local.timestamp() % HOUR == 0 else clock.floor(moment, seconds)

    def where(self, column: str, span: Span) -> tuple[Where, ...]:
        return (*self.sites(), *span.where(column))

    def selection(self, span: Span) -> Selection:
        """The selection for the figures of a span."""
        unit = CALENDAR[self.preset][0] if self.preset in CALENDAR else None
        return Selection(
            self.site, span.start, span.end, self.zone, self.conditions, self.comparison, unit=unit
        )
