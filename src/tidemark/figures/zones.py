"""Time bins in the days of a zone.

Bins longer than an hour begin at multiples of their length since midnight of 1970 on the zone's clocks, so a bin of
a day is a day of the zone, of 23 or 25 hours where the clocks change. Shorter ones are the same in UTC, unless the
zone is not whole hours from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

HOUR = 3600


@dataclass(frozen=True)
class Shifts:
    """Seconds by which a zone's clocks are ahead of UTC: `offsets[i]` before `until[i]`, the last one after all of
    them."""

    until: tuple[datetime, ...]
    offsets: tuple[int, ...]

    def fits(self, seconds: int) -> bool:
        """Whether each window of `seconds` of UTC lies within one of the zone's bins."""
        return all(offset % seconds == 0 for offset in self.offsets) and all(
            moment.timestamp() % seconds == 0 for moment in self.until
        )


def midnight(moment: datetime) -> datetime:
    """The beginning of a moment's day (UTC)."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@cache
def shifts(zone: str, seconds: int, start: datetime, end: datetime) -> Shifts | None:
    """The shifts of bins of `seconds` for times from `start` until `end`; None where bins of UTC are the zone's."""
    first, last = start.replace(microsecond=0), end
    clock = ZoneInfo(zone)
    until, offsets = [], [_offset(clock, first)]
    moment = first
    while moment < last:
        later = min(moment + timedelta(days=7), last)
        if _offset(clock, later) != offsets[-1]:
            until.append(_change(clock, moment, later))
            offsets.append(_offset(clock, later))
        moment = later
    result = Shifts(tuple(until), tuple(offsets))
    return None if all(offset % seconds == 0 for offset in offsets) else result


def _offset(clock: ZoneInfo, moment: datetime) -> int:
    offset = moment.astimezone(clock).utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


def _change(clock: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """When the clocks change between two moments, to the second."""
    before = _offset(clock, low)
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
        low, high = (middle, high) if _offset(clock, middle) == before else (low, middle)
    return high


def floors(times: np.ndarray, seconds: int, zone_shifts: Shifts | None) -> np.ndarray:
    """The bins of times, both in seconds since the epoch; of a zone's clocks where there are shifts."""
    if zone_shifts is None:
        return times // seconds * seconds
    until = np.array([moment.timestamp() for moment in zone_shifts.until])
    walls = times + np.array(zone_shifts.offsets)[np.searchsorted(until, times, side="right")]
    floored: np.ndarray = walls // seconds * seconds
    return floored


def to_utc(walls: pd.Series, zone: str) -> pd.Series:
    """Times on a zone's clocks, given as if they were UTC, as the moments at which these clocks show them first."""
    import pandas as pd

    naive = pd.to_datetime(walls, utc=True).dt.tz_localize(None)
    local = naive.dt.tz_localize(zone, ambiguous=np.ones(len(naive), bool), nonexistent="shift_forward")
    return local.dt.tz_convert("UTC").astype("datetime64[us, UTC]")


def starts(start: datetime, end: datetime, seconds: int, zone: str) -> pd.Series:
    """The beginnings (UTC) of all bins from the one of `start` until `end`, at least one."""
    import pandas as pd

    bounds = [np.array([int(moment.timestamp())]) for moment in (start, max(start, end))]
    zone_shifts = shifts(zone, seconds, start, max(start, end))
    first, last = (int(floors(bound, seconds, zone_shifts)[0]) for bound in bounds)
    walls = pd.Series(pd.to_datetime(np.arange(first, last + 1, seconds), unit="s", utc=True))
    return to_utc(walls, zone if zone_shifts is not None else "UTC")


def floor(moment: datetime, seconds: int, zone: str) -> datetime:
    """The beginning of the bin of a moment."""
    start: datetime = starts(moment, moment, seconds, zone).iloc[0].to_pydatetime()
    return start


def window(start: pd.Timestamp, seconds: int, zone: str) -> Sequence[datetime]:
    """The beginning and the end of the bin that begins at `start`."""
    import pandas as pd

    later = start + pd.Timedelta(seconds=seconds + 2 * HOUR)
    every = starts(start.to_pydatetime(), later.to_pydatetime(), seconds, zone)
    return [moment.to_pydatetime() for moment in (start, every[every > start].iloc[0])]
