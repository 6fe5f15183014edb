"""Distinct visitors of any range and any grouping, by uniting the theta sketches kept in gold.

A visitor belongs to a site, so sketches are united within a site and the sites' counts are added.
Days are united once and kept; when rows of a day change, only that day is united again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tidemark.figures.bins import Bins
from tidemark.figures.hashes import hash_of
from tidemark.figures.query import Columns, Condition, Where, count, greatest, query, time_bin, total
from tidemark.figures.reader import Reader, again, frame, plain
from tidemark.figures.rows import Rows
from tidemark.figures.sketches import Distinct, unite
from tidemark.figures.zones import floors

if TYPE_CHECKING:
    import pyarrow as pa

DAY = 86_400
# A union's label and objects take about this much beside its hashes.
_UNION_BYTES = 500
# The memory of fewer hashes is not worth their order.
_MANY = 1000
# A group of rows: its site, its time bin in epoch seconds (0 without bins), and its values of `by`.
Group = tuple[Any, ...]
United = dict[Group, Distinct]


@dataclass(frozen=True)
class Grouping:
    """Rows are grouped by the columns `by` and, with `bins`, by the bin that their `time` lies in."""

    by: tuple[str, ...] = ()
    bins: Bins | None = None
    time: str = "window_start"

    @property
    def names(self) -> list[str]:
        """Names for the columns `by` that no other column has."""
        return [f"by{i}" for i in range(len(self.by))]


UNGROUPED = Grouping()


def distinct(
    rows: Rows, table: str, where: Sequence[Condition], grouping: Grouping = UNGROUPED
) -> pd.DataFrame:
    """Distinct visitors of the rows that `where` keeps, as `counts` has them."""
    return counts(united(rows, table, where, grouping), grouping)


def united(rows: Rows, table: str, where: Sequence[Condition], grouping: Grouping = UNGROUPED) -> United:
    """The unions of the sketches of the rows that `where` keeps."""
    days = daily(rows, table, where, grouping)
    prints = {day: changed for day, (changed, _) in days.items()}
    parts = {day: part for day, (_, part) in days.items()}
    earlier, newest = list(prints)[:-1], list(prints)[-1:]
    before: United = {}
    if earlier:
        # Days other than the newest hardly change: they are united once for all refreshes.
        fingerprint = tuple(prints[day] for day in earlier)
        limits = tuple((_limits(where, day, grouping.time), day) for day in earlier)
        key = (rows.reader.label, table, grouping, limits)
        before = rows.unions.get(key, fingerprint) or {}
        if not before:
            before = merged([parts[day] for day in earlier])
            # Where each group is of one day, there is nothing more to remember.
            if not {id(union) for union in before.values()} <= _ids(parts.values()):
                before = compacted(before)
                rows.unions.put(key, fingerprint, before, size_of(before))
    return merged([before, parts[newest[0]]]) if newest else before


def of_ids(ids: pa.Table, grouping: Grouping) -> United:
    """The unions of single ids: `ids` has the columns `site`, `visitor` (never NULL or empty) and those of
    `grouping.names`, and with bins `start`, the bin's start on its zone's clocks."""
    if not len(ids):
        return {}
    rows = plain(ids)
    starts = np.zeros(len(rows), np.int64) if grouping.bins is None else _seconds(rows["start"])
    codes, _, labels = _labelled(rows, grouping, starts)
    order = np.argsort(codes, kind="stable")
    hashes = hash_of(rows["visitor"]).to_numpy()[order]
    parts = np.split(hashes, np.flatnonzero(np.diff(codes[order])) + 1)
    return dict(zip(labels, map(Distinct, parts), strict=True))


def daily(
    rows: Rows, table: str, where: Sequence[Condition], grouping: Grouping = UNGROUPED
) -> dict[pd.Timestamp, tuple[Any, United]]:
    """By day (UTC) with rows, in order: a fingerprint of its rows, and the unions of its groups' sketches."""
    columns: Columns = {
        "day": time_bin(grouping.time, DAY),
        "changed": greatest("updated_at"),
        "rows": count(),
        "visitors": total("visitors"),
    }
    days = frame(rows.reader.arrow(query(table, columns, where, group_by=["day"], order_by=["day"])))
    prints = {day: tuple(rest) for day, *rest in days.itertuples(index=False)}
    base = (rows.reader.label, table, grouping)
    keys = {day: (base, _limits(where, day, grouping.time), day) for day in prints}

    def read(run: Sequence[pd.Timestamp]) -> dict[pd.Timestamp, United]:
        return _unite_days(rows.reader, table, where, grouping, run)

    parts = rows.unions.by_day(keys, prints, read, size_of)
    return {day: (prints[day], parts[day]) for day in prints}


def _limits(where: Sequence[Condition], day: pd.Timestamp, time: str) -> tuple[Condition, ...]:
    """The filters that apply within a day; a bound of the range applies only to its own day."""
    end = day + pd.Timedelta(seconds=DAY)
    return tuple(
        each
        for each in where
        if not (isinstance(each, Where) and each.column == time) or day < pd.Timestamp(each.value) < end
    )


@again
def _unite_days(
    reader: Reader,
    table: str,
    where: Sequence[Condition],
    grouping: Grouping,
    days: Sequence[pd.Timestamp],
) -> dict[pd.Timestamp, United]:
    """The united sketches of each of these days, read in one query from the first to the last."""
    time, bins = grouping.time, grouping.bins
    columns: Columns = {"site": "site", "start": time, **dict(zip(grouping.names, grouping.by, strict=True))}
    columns["sketch"] = "visitors_sketch"
    last = max(days) + pd.Timedelta(seconds=DAY)
    limits = (
        Where(time, ">=", min(days).to_pydatetime()),
        Where(time, "<", last.to_pydatetime()),
    )
    # Not kept as rows: once they are united, nobody asks for them.
    table_rows = reader.coded(query(table, columns, (*where, *limits)), ()).read_all()
    rows = plain(table_rows.drop_columns(["sketch"]))
    seconds = _seconds(rows["start"])
    starts = np.zeros(len(seconds), np.int64) if bins is None else floors(seconds, bins.seconds, bins.shifts)
    codes, heads, labels = _labelled(rows, grouping, starts, seconds // DAY)
    day_of = seconds[heads] // DAY * DAY
    unions: dict[pd.Timestamp, United] = {day: {} for day in days}
    wanted = {int(day.timestamp()): day for day in days}
    for code, union in unite(table_rows.column("sketch"), codes).items():
        if day_of[code] in wanted:
            unions[wanted[day_of[code]]][labels[code]] = union
    return {day: compacted(part) for day, part in unions.items()}


def compacted(united: Mapping[Any, Distinct]) -> dict[Any, Distinct]:
    """The same unions, those of many hashes with each hash once. They are copies, because a part of an array holds all
    of it in memory."""
    return {
        group: Distinct((union.hashes if len(union.given) >= _MANY else union.given).copy(), union.theta)
        for group, union in united.items()
    }


def _ids(parts: Iterable[United]) -> set[int]:
    return {id(union) for part in parts for union in part.values()}


def size_of(united: Mapping[Any, Distinct]) -> int:
    """The bytes of unions."""
    return sum(union.given.nbytes + _UNION_BYTES for union in united.values())


def _seconds(times: pa.ChunkedArray) -> np.ndarray:
    """Times in microseconds as seconds since the epoch."""
    seconds: np.ndarray = times.cast("int64").to_numpy() // 1_000_000
    return seconds


def _labelled(
    rows: pa.Table, grouping: Grouping, starts: np.ndarray, *more: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[Group]]:
    """Each row's group, each group's first row and its label; `more` columns tell groups apart, too."""
    texts = [rows[name].combine_chunks().dictionary_encode("encode") for name in ("site", *grouping.names)]
    codes, heads = _groups([*(text.indices.to_numpy() for text in texts), starts, *more])
    site, *values = (text.take(heads).to_pylist() for text in texts)
    return codes, heads, list(zip(site, starts[heads].tolist(), *values, strict=True))


def _groups(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Each row's group, which are the rows that are equal in all columns of integers, and each group's first row."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        least = column.min(initial=0)
        codes = pd.factorize(codes * (column.max(initial=0) - least + 1) + (column - least))[0]
    first = np.ones(len(codes), bool)
    first[1:] = codes[1:] > np.maximum.accumulate(codes)[:-1]
    return codes, np.flatnonzero(first)


def merged(parts: Sequence[Mapping[Any, Distinct]]) -> dict[Any, Distinct]:
    """The unions of all parts, group by group."""
    lists: dict[Any, list[Distinct]] = {}
    for part in parts:
        for group, union in part.items():
            lists.setdefault(group, []).append(union)
    return {group: _union(unions) for group, unions in lists.items()}


def _union(unions: Sequence[Distinct]) -> Distinct:
    if len(unions) <= 2:
        return unions[0] if len(unions) == 1 else unions[0].with_more(unions[1])
    return Distinct(np.concatenate([u.given for u in unions]), min(u.theta for u in unions))


def counts(united: United, grouping: Grouping) -> pd.DataFrame:
    """Their numbers in a column `visitors`; with bins, `bin` is a bin's start, on its zone's clocks. Without grouping,
    one row."""
    binned = grouping.bins is not None
    sums: dict[Group, float] = {}
    for (_, moment, *values), union in united.items():
        group = (moment, *values) if binned else tuple(values)
        sums[group] = sums.get(group, 0.0) + union.count()
    if not grouping.by and not binned:
        return pd.DataFrame({"visitors": [round(sum(sums.values()))]})
    names = [*(["bin"] if binned else []), *grouping.by]
    frame = pd.DataFrame([(*group, round(n)) for group, n in sums.items()], columns=[*names, "visitors"])
    if binned:
        frame["bin"] = pd.to_datetime(frame["bin"], unit="s", utc=True).astype("datetime64[us, UTC]")
    return frame
