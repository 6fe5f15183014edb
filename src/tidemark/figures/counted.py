"""The counts of a list's rows, and how they changed from the earlier period."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tidemark.figures.comparison import Change
from tidemark.figures.measures import Base, measured
from tidemark.figures.query import Condition, Where
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection


@dataclass(frozen=True)
class Counted:
    """The measure `name` of each combination of the columns `by`, of the rows that `where` keeps."""

    name: str
    by: tuple[str, ...]
    base: Base
    where: tuple[Condition, ...] = ()

    def of(self, rows: Rows, selection: Selection, frame: pd.DataFrame) -> pd.Series:
        """The counts of the values in the rows of `frame`, by their columns `by`; other values may be among them."""
        listed: tuple[Condition, ...] = ()
        # Visitors are counted for all values: the list itself has just united them by day, which is remembered.
        if self.name != "visitors":
            listed = tuple(
                Where(self.base.grouped(name), "in", tuple(frame[name].unique().tolist())) for name in self.by
            )
        where = (*self.where, *listed)
        counts = measured(rows, selection, self.base, [self.name], by=self.by, where=where)
        return counts.set_index(list(self.by))[self.name]


def changes(
    rows: Rows,
    counted: Counted,
    frame: pd.DataFrame,
    selection: Selection,
    period: Selection | None,
    *,
    known: bool = False,
) -> list[Change]:
    """For each row of `frame` its count in the selection and in the earlier period; no change without one. `known` says
    that `frame` has the counts of this selection."""
    if period is None or frame.empty:
        return [Change(None, None)] * len(frame)
    values = frame[list(counted.by)].itertuples(index=False, name=None)
    keys = [value if len(counted.by) > 1 else value[0] for value in values]
    before = counted.of(rows, period, frame).to_dict()
    if known:
        now = dict(zip(keys, frame[counted.name].tolist(), strict=True))
    else:
        now = counted.of(rows, selection, frame).to_dict()
    return [Change(now.get(key, 0), before.get(key, 0)) for key in keys]
