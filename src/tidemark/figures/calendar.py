"""Days, weeks, months and years of a zone's calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

Unit = Literal["day", "week", "month", "year"]


def first_day(day: date, unit: Unit) -> date:
    """The first day of the unit that contains a day. Weeks begin on Monday."""
    match unit:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "year":
            return day.replace(month=1, day=1)


def begin(moment: datetime, unit: Unit, zone: str) -> datetime:
    """The first moment (UTC) of the unit that contains `moment`."""
    day = moment.astimezone(ZoneInfo(zone)).date()
    return utc(datetime.combine(first_day(day, unit), time()), zone)


def back(moment: datetime, unit: Unit, zone: str) -> datetime:
    """The same time (UTC) on the zone's clocks one unit earlier; the last day of a shorter month."""
    local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    match unit:
        case "day":
            local -= timedelta(days=1)
        case "week":
            local -= timedelta(weeks=1)
        case "month":
            last = local.replace(day=1) - timedelta(days=1)
            local = last.replace(day=min(local.day, last.day))
        case "year":
            day = 28 if (local.month, local.day) == (2, 29) else local.day
            local = local.replace(year=local.year - 1, day=day)
    return utc(local, zone)


def utc(local: datetime, zone: str) -> datetime:
    """A time on the zone's clocks as UTC."""
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
