"""Days, weeks, months and years of a zone's calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

Unit = Literal["day", "week", "month", "year"]


def begin(moment: datetime, unit: Unit, zone: str) -> datetime:
    """The first moment (UTC) of the unit that contains `moment`. Weeks begin on Monday."""
    day = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "week":
            day -= timedelta(days=day.weekday())
        case "month":
            day = day.replace(day=1)
        case "year":
            day = day.replace(month=1, day=1)
    return _utc(day, zone)


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
    return _utc(local, zone)


def _utc(local: datetime, zone: str) -> datetime:
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
