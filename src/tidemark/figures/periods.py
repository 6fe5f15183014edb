"""Days, weeks and months of a time zone, and when the report of one is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from tidemark.figures import calendar

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
    first = calendar.first_day(day, every)
    # 32 days after the first of a month lie in the next one.
    after = first + timedelta(days={"day": 1, "week": 7, "month": 32}[every])
    return Period(every, first, calendar.first_day(after, every), zone)


def latest(every: Every, at: time, zone: str, clock: datetime) -> Period:
    """The last period whose report is due by `clock`."""
    period = of(every, clock.astimezone(ZoneInfo(zone)).date(), zone).before
    return period if period.due(at) <= clock else period.before


def _moment(day: date, at: time, zone: str) -> datetime:
    return calendar.utc(datetime.combine(day, at), zone)
