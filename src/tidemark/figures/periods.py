"""Days, weeks and months of a time zone, and when the report of one is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

Every = Literal["day", "week", "month"]
EVERY: tuple[Every, ...] = get_args(Every)


@dataclass(frozen=True)
class Period:
    """A day, a week from Monday, or a month: from `first` until before `last`, days of `zone`."""

    every: Every
    first: date
    last: date
    zone: str = "UTC"

    @property
    def key(self) -> str:
        """Its first day as text."""
        return self.first.isoformat()

    @property
    def start(self) -> datetime:
        """Its beginning, UTC."""
        return _moment(self.first, time(), self.zone)

    @property
    def end(self) -> datetime:
        """Its exclusive end, UTC. A day is 23 or 25 hours long when the clocks change."""
        return _moment(self.last, time(), self.zone)

    @property
    def before(self) -> Period:
        """The day, week or month before."""
        return of(self.every, self.first - timedelta(days=1), self.zone)

    def due(self, at: time) -> datetime:
        """When its report is due, UTC: at the first such time on the clocks after its end. A time that the clocks skip
        counts as if they had not."""
        return _moment(self.last, at, self.zone)

    def __str__(self) -> str:
        last = self.last - timedelta(days=1)
        if self.every == "day":
            return f"{self.first:%A}, {self.first.day} {self.first:%B %Y}"
        if self.every == "month":
            return f"{self.first:%B %Y}"
        first = f"{self.first.day}" if self.first.month == last.month else f"{self.first.day} {self.first:%B}"
        return f"{first} to {last.day} {last:%B %Y}"


def of(every: Every, day: date, zone: str) -> Period:
    """The period in which a day lies."""
    if every == "day":
        return Period(every, day, day + timedelta(days=1), zone)
    if every == "week":
        first = day - timedelta(days=day.weekday())
        return Period(every, first, first + timedelta(days=7), zone)
    first = day.replace(day=1)
    return Period(every, first, (first + timedelta(days=32)).replace(day=1), zone)


def latest(every: Every, at: time, zone: str, clock: datetime) -> Period:
    """The last period whose report is due by `clock`."""
    period = of(every, clock.astimezone(ZoneInfo(zone)).date(), zone).before
    return period if period.due(at) <= clock else period.before


def _moment(day: date, at: time, zone: str) -> datetime:
    return datetime.combine(day, at, ZoneInfo(zone)).astimezone(UTC)
