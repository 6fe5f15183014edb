"""Counts of a range from those of its days (UTC), which are kept while no file with rows of the day is replaced.

So a range that has moved with the clock reads the days of its bounds, and after a batch of lines only the days that it
has lines of. Distinct values are kept as hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tidemark.figures.hashes import hash_of
from tidemark.figures.query import Columns, Expression, Query, Where, query, time_bin
from tidemark.figures.reader import Files
from tidemark.figures.rows import Rows, ordered
from tidemark.figures.sketches import Distinct
from tidemark.figures.visitors import DAY, compacted, merged, size_of
from tidemark.figures.zones import midnight

if TYPE_CHECKING:
    import pyarrow as pa

# How the counts of days make those of all.
_SUMS: Mapping[str, str] = {"count": "sum", "sum": "sum", "count_true": "sum", "min": "min", "max": "max"}
_DAY, _VALUE = "day of all", "value of all"
_A_DAY = timedelta(seconds=DAY)
# A line with a wrong year would make thousands of days.
MOST_DAYS = 400


@dataclass(frozen=True)
class _Asked:
    """A query in parts: its bounds of time, its other conditions are in `rest`, and its columns by what they are."""

    rest: Query
    time: str
    start: datetime
    end: datetime | None
    groups: Columns
    sums: Mapping[str, Expression]
    distinct: Mapping[str, Expression]


@dataclass(frozen=True)
class _Part:
    """A day's counts by group, and the distinct values of each group."""

    sums: pd.DataFrame
    values: dict[tuple[Any, ...], Distinct]

    @property
    def size(self) -> int:
        return int(self.sums.memory_usage(deep=True).sum()) + size_of(self.values)


def counted(rows: Rows, q: Query, time: str, *, few: bool = False) -> pd.DataFrame:
    """The rows of a query that counts by groups, as `rows` gives them. `time` is the column of its bounds of time.

    Another query, one of less than two days, or one of a table whose files are not known goes to `rows`; so does one
    that counts distinct values, unless there are `few`, of one column of text, by groups that show nobody.
    """
    asked = _asked(q, time, few)
    files = None if asked is None else rows.reader.files(q.table, time)
    if asked is None or files is None:
        return rows(q)
    prints = _fingerprints(files, asked)
    if prints is None:
        return rows(q)
    base = (rows.reader.label, repr(replace(asked.rest, order_by=(), limit=None)))
    keys = {day: (base, _bounds(asked, day), day) for day in prints}

    def prints_after() -> Mapping[pd.Timestamp, Any]:
        return _fingerprints(rows.reader.files(q.table, time) or [], asked) or {}

    parts = rows.unions.counts.by_day(
        keys, prints, lambda run: _read(rows, asked, run), lambda part: part.size, prints_after
    )
    return _together(list(parts.values()), asked)


def _asked(q: Query, time: str, few: bool) -> _Asked | None:
    """None if the days of a query cannot be counted by themselves."""
    bounds = [w for w in q.where if isinstance(w, Where) and w.column == time]
    starts = [w.value for w in bounds if w.operator == ">="]
    ends = [w.value for w in bounds if w.operator == "<"]
    groups = {name: column for name, column in q.columns if name in q.group_by}
    counts = {name: column for name, column in q.columns if name not in q.group_by}
    # A group within one day has no values on other days, so its distinct values are those of that day.
    apart = any(column == time or _is_within_day(column, time) for column in groups.values())
    sums: dict[str, Expression] = {}
    distinct: dict[str, Expression] = {}
    for name, column in counts.items():
        if not isinstance(column, Expression):
            return None
        if column.kind in _SUMS or (column.kind == "distinct" and apart):
            sums[name] = column
        # A condition that every row passes makes no difference.
        elif column.kind == "distinct" and few and set(column.when) <= set(q.where):
            distinct[name] = column
        else:
            return None
    splits = groups and not q.apart and len(distinct) <= 1 and q.tables() == (q.table,)
    if not splits or not starts or len(starts) + len(ends) != len(bounds):
        return None
    start, end = max(starts), min(ends, default=None)
    if end is not None and end - start < 2 * _A_DAY:
        return None
    rest = replace(q, where=tuple(w for w in q.where if w not in bounds))
    return _Asked(rest, time, start, end, groups, sums, distinct)


def _is_within_day(column: str | Expression, time: str) -> bool:
    if not isinstance(column, Expression) or (column.kind, column.column) != ("bin", time):
        return False
    return bool(DAY % column.argument == 0)


def _fingerprints(files: Files, asked: _Asked) -> dict[pd.Timestamp, tuple[str, ...]] | None:
    """By day of the range, the files that have rows of it. None for a range of less than two days, or of too many."""
    inside = [(name, *_within(first, last, asked)) for name, first, last in files]
    inside = [(name, first, last) for name, first, last in inside if first <= last]
    if not inside:
        return None
    first, last = min(each[1] for each in inside), max(each[2] for each in inside)
    if not 2 * _A_DAY <= last - first <= MOST_DAYS * _A_DAY:
        return None
    names: dict[pd.Timestamp, list[str]] = {day: [] for day in pd.date_range(_day(first), _day(last))}
    for name, lower, upper in sorted(inside):
        for day in pd.date_range(_day(lower), _day(upper)):
            names[day].append(name)
    return {day: tuple(each) for day, each in names.items() if each}


def _within(first: datetime, last: datetime, asked: _Asked) -> tuple[datetime, datetime]:
    """The part of a file's times that lies in the range."""
    microsecond = timedelta(microseconds=1)
    return max(first, asked.start), last if asked.end is None else min(last, asked.end - microsecond)


def _day(moment: datetime) -> pd.Timestamp:
    return pd.Timestamp(midnight(moment))


def _bounds(asked: _Asked, day: pd.Timestamp) -> tuple[datetime | None, ...]:
    """The bounds of the range that lie within a day."""
    end = day + _A_DAY
    return tuple(at if at is not None and day < at < end else None for at in (asked.start, asked.end))


def _read(rows: Rows, asked: _Asked, days: Sequence[pd.Timestamp]) -> dict[pd.Timestamp, _Part]:
    """The parts of days without a gap, in one query."""
    start = max(asked.start, days[0].to_pydatetime())
    end = days[-1].to_pydatetime() + _A_DAY
    end = end if asked.end is None else min(end, asked.end)
    within = (Where(asked.time, ">=", start), Where(asked.time, "<", end))
    columns: Columns = {_DAY: time_bin(asked.time, DAY), **asked.groups}
    for each in asked.distinct.values():
        columns[_VALUE] = each.column
    by = list(columns)
    where = (*asked.rest.where, *within)
    wanted = query(
        asked.rest.table, {**columns, **asked.sums}, where, group_by=by, counted=asked.rest.counted
    )
    if not asked.distinct:
        read = rows(wanted)
        return {day: _Part(read[read[_DAY] == day].drop(columns=_DAY), {}) for day in days}
    # The values are shown to nobody.
    table = rows.reader.coded(wanted, ()).read_all()
    read = table.drop_columns([_VALUE]).to_pandas()
    hashes, known = _hashes(table[_VALUE])
    at = {day: np.flatnonzero(read[_DAY] == day) for day in days}
    return {
        day: _part(read.iloc[rows_of], hashes[rows_of], known[rows_of], asked) for day, rows_of in at.items()
    }


def _part(read: pd.DataFrame, hashes: np.ndarray, known: np.ndarray, asked: _Asked) -> _Part:
    grouped = read.groupby(list(asked.groups), sort=False, dropna=False)
    sums = _sums(grouped, asked)
    codes = grouped.ngroup().to_numpy()[known]
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(sums) + 1))
    ordered = hashes[known][order]
    labels = sums[list(asked.groups)].itertuples(index=False, name=None)
    values = {
        label: Distinct(ordered[low:high])
        for label, low, high in zip(labels, bounds, bounds[1:], strict=False)
    }
    return _Part(sums, compacted(values))


def _sums(grouped: Any, asked: _Asked) -> pd.DataFrame:
    """The groups with their sums; NULL is None, as in rows that were read."""
    sums: pd.DataFrame = (grouped.agg(_how(asked)) if asked.sums else grouped.size()).reset_index()
    for name in asked.groups:
        if sums[name].dtype == object:
            sums[name] = sums[name].where(sums[name].notna(), None)
    return sums[[*asked.groups, *asked.sums]]


def _hashes(values: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of texts, 0 of the empty one, and which are not NULL."""
    import pyarrow.compute as pc

    hashes = pc.fill_null(hash_of(values), 0).to_numpy(zero_copy_only=False)
    return hashes, pc.is_valid(values).to_numpy()


def _how(asked: _Asked) -> dict[str, str]:
    return {name: _SUMS.get(each.kind, "sum") for name, each in asked.sums.items()}


def _together(parts: Sequence[_Part], asked: _Asked) -> pd.DataFrame:
    """The rows of the query from its days."""
    frames = [part.sums for part in parts]
    every = pd.concat([each for each in frames if len(each)] or frames[:1], ignore_index=True)
    groups = list(asked.groups)
    result = _sums(every.groupby(groups, sort=False, dropna=False), asked)
    for name in asked.distinct:
        values = merged([part.values for part in parts])
        labels = result[groups].itertuples(index=False, name=None)
        result[name] = np.array([len(values[label].hashes) for label in labels], np.int64)
    result = result[[name for name, _ in asked.rest.columns]]
    return ordered(result, asked.rest.order_by, asked.rest.limit)
