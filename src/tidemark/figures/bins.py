"""Bins of time to group rows by, in the days of a zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pandas as pd

from tidemark.figures.extents import extents, of_site
from tidemark.figures.query import Expression, time_bin, wall_bin
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.zones import Shifts, shifts, starts, to_utc

A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Bins:
    """Bins of time, in a zone; on its clocks where they are not those of UTC."""

    seconds: int
    zone: str = "UTC"
    shifts: Shifts | None = None

    def of(self, column: str) -> Expression:
        return wall_bin(column, self.seconds, self.shifts) if self.shifts else time_bin(column, self.seconds)

    def consist_of(self, seconds: int) -> bool:
        """Whether each consists of whole windows of `seconds` of UTC."""
        return self.seconds % seconds == 0 and (self.shifts is None or self.shifts.fits(seconds))


def bins_of(rows: Rows, selection: Selection, seconds: int) -> Bins:
    """The bins of a selection. The clock changes of its zone are those within its range."""
    start, end = selection.start, selection.end
    if selection.zone == "UTC":
        return Bins(seconds)
    if start is None or end is None:
        extent = of_site(extents(rows), selection.site)
        now = datetime.now(UTC)
        start, end = start or extent.first or now, end or extent.newest or now
    return Bins(seconds, selection.zone, shifts(selection.zone, seconds, start, end + A_DAY))


def in_utc(rows: pd.DataFrame, bins: Bins | None) -> pd.DataFrame:
    """The same with `bin` in UTC."""
    if bins is None or bins.shifts is None:
        return rows
    return rows.assign(bin=to_utc(rows["bin"], bins.zone))


def every_bin(
    frame: pd.DataFrame,
    start: datetime,
    end: datetime,
    seconds: int,
    values: Sequence[str],
    zone: str = "UTC",
) -> pd.DataFrame:
    """The sums of columns by `bin`, for every bin of a zone in [start, end]: bins without rows count 0."""
    bins = pd.DatetimeIndex(starts(start, end, seconds, zone), name="bin")
    summed = frame.groupby("bin")[list(values)].sum() if len(frame) else pd.DataFrame(columns=list(values))
    return summed.reindex(bins, fill_value=0).reset_index()
