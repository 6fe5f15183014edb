"""Distinct visitors of any range and any grouping, by uniting the theta sketches kept in gold.

A visitor belongs to a site, so sketches are united within a site and the sites' counts are added.
Days are united once and kept; when rows of a day change, only that day is united again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from tidemark.figures.query import Condition, Where, count, greatest, query, time_bin, total
from tidemark.figures.reader import Reader, plain, read
from tidemark.figures.sketches import Distinct, unite
from tidemark.figures.zones import Shifts, floors

DAY = 86_400
# A group of rows: its site, its time bin in epoch seconds (0 without bins), and its values of `by`.
Group = tuple[Any, ...]
United = dict[Group, Distinct]


@dataclass
class UnionCache:
    """Cache of united days, each with a fingerprint of its rows; removes the least recently used."""

    # A month's days, for every table and grouping that the pages ask for.
    limit: int = 600
    entries: OrderedDict[Any, tuple[Any, Any]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def get(self, key: Any, fingerprint: Any) -> Any:
        with self.lock:
            found = self.entries.get(key)
            if found is None or found[0] != fingerprint:
                return None
            self.entries.move_to_end(key)
            return found[1]

    def put(self, key: Any, fingerprint: Any, value: Any) -> None:
        with self.lock:
            self.entries[key] = (fingerprint, value)
            self.entries.move_to_end(key)
            while len(self.entries) > self.limit:
                self.entries.popitem(last=False)


def distinct(
    reader: Reader,
    table: str,
    where: Sequence[Condition],
    *,
    by: Sequence[str] = (),
    bin_seconds: int | None = None,
    time: str = "window_start",
    shifts: Shifts | None = None,
    cache: UnionCache,
) -> pd.DataFrame:
    """Distinct visitors of the rows that `where` keeps, in a column `visitors`.

    Grouped by the columns `by` and, with `bin_seconds`, by `bin`, the start of the time bin that a
    row's `time` falls into; with `shifts`, on a zone's clocks. Without grouping, one row.
    """
    found = daily(reader, table, where, by=by, bin_seconds=bin_seconds, time=time, shifts=shifts, cache=cache)
    prints = {day: changed for day, (changed, _) in found.items()}
    parts = {day: part for day, (_, part) in found.items()}
    base = (reader.label, table, tuple(by), bin_seconds, shifts)
    earlier, newest = list(prints)[:-1], list(prints)[-1:]
    united: United = {}
    if earlier:
        # Days other than the newest hardly change: they are united once for all refreshes.
        fingerprint = tuple(prints[day] for day in earlier)
        key = (base, tuple((_cut(where, day, time), day) for day in earlier))
        united = cache.get(key, fingerprint) or {}
        if not united:
            united = _merged([parts[day] for day in earlier])
            cache.put(key, fingerprint, united)
    if newest:
        united = _merged([united, parts[newest[0]]])
    return _counts(united, by, binned=bin_seconds is not None)


def daily(
    reader: Reader,
    table: str,
    where: Sequence[Condition],
    *,
    by: Sequence[str] = (),
    bin_seconds: int | None = None,
    time: str = "window_start",
    shifts: Shifts | None = None,
    cache: UnionCache,
) -> dict[pd.Timestamp, tuple[Any, United]]:
    """By day (UTC) with rows, in order: a fingerprint of its rows, and the unions of its groups' sketches."""
    days = read(
        reader,
        table,
        {
            "day": time_bin(time, DAY),
            "changed": greatest("updated_at"),
            "rows": count(),
            "visitors": total("visitors"),
        },
        where,
        group_by=["day"],
        order_by=["day"],
    )
    prints = {day: tuple(rest) for day, *rest in days.itertuples(index=False)}
    base = (reader.label, table, tuple(by), bin_seconds, shifts)
    keys = {day: (base, _cut(where, day, time), day) for day in prints}
    parts = {day: cache.get(keys[day], prints[day]) for day in prints}
    stale = [day for day in prints if parts[day] is None]
    if stale:
        for day, part in _unite_days(reader, table, where, by, bin_seconds, time, shifts, stale).items():
            parts[day] = part
            cache.put(keys[day], prints[day], part)
    return {day: (prints[day], parts[day]) for day in prints}


def _cut(where: Sequence[Condition], day: pd.Timestamp, time: str) -> tuple[Condition, ...]:
    """The filters that apply within a day; a bound of the range applies only to its own day."""
    end = day + pd.Timedelta(seconds=DAY)
    return tuple(
        each
        for each in where
        if not (isinstance(each, Where) and each.column == time) or day < pd.Timestamp(each.value) < end
    )


def _unite_days(
    reader: Reader,
    table: str,
    where: Sequence[Condition],
    by: Sequence[str],
    bin_seconds: int | None,
    time: str,
    shifts: Shifts | None,
    days: Sequence[pd.Timestamp],
) -> dict[pd.Timestamp, United]:
    """The united sketches of each of these days, read in one query from the first to the last."""
    columns: dict[str, Any] = {"site": "site", "start": time}
    names = [f"by{i}" for i in range(len(by))]
    columns |= dict(zip(names, by, strict=True)) | {"sketch": "visitors_sketch"}
    last = max(days) + pd.Timedelta(seconds=DAY)
    limits = (
        Where(time, ">=", min(days).to_pydatetime()),
        Where(time, "<", last.to_pydatetime()),
    )
    found_rows = reader.arrow(query(table, columns, (*where, *limits)))
    rows = plain(found_rows.drop_columns(["sketch"]))
    seconds = rows["start"].cast("int64").to_numpy() // 1_000_000
    bins = np.zeros(len(seconds), np.int64) if bin_seconds is None else floors(seconds, bin_seconds, shifts)
    texts = [rows[name].combine_chunks().dictionary_encode("encode") for name in ("site", *names)]
    codes, heads = _groups([*(text.indices.to_numpy() for text in texts), bins, seconds // DAY])
    site, *values = (text.take(heads).to_pylist() for text in texts)
    starts, labels = seconds[heads] // DAY * DAY, list(zip(site, bins[heads].tolist(), *values, strict=True))
    found: dict[pd.Timestamp, United] = {day: {} for day in days}
    wanted = {int(day.timestamp()): day for day in days}
    for code, union in unite(found_rows.column("sketch"), codes).items():
        if starts[code] in wanted:
            found[wanted[starts[code]]][labels[code]] = union
    return found


def _groups(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Each row's group, which are the rows that are equal in all columns of integers, and each group's first row."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        least = column.min(initial=0)
        codes = pd.factorize(codes * (column.max(initial=0) - least + 1) + (column - least))[0]
    first = np.ones(len(codes), bool)
    first[1:] = codes[1:] > np.maximum.accumulate(codes)[:-1]
    return codes, np.flatnonzero(first)


def _merged(parts: Sequence[United]) -> United:
    lists: dict[Group, list[Distinct]] = {}
    for part in parts:
        for group, union in part.items():
            lists.setdefault(group, []).append(union)
    return {group: _union(unions) for group, unions in lists.items()}


def _union(unions: Sequence[Distinct]) -> Distinct:
    if len(unions) <= 2:
        return unions[0] if len(unions) == 1 else unions[0].with_more(unions[1])
    return Distinct(np.concatenate([u.given for u in unions]), min(u.theta for u in unions))


def _counts(united: United, by: Sequence[str], *, binned: bool) -> pd.DataFrame:
    sums: dict[Group, float] = {}
    for (_, moment, *values), union in united.items():
        group = (moment, *values) if binned else tuple(values)
        sums[group] = sums.get(group, 0.0) + union.count()
    if not by and not binned:
        return pd.DataFrame({"visitors": [round(sum(sums.values()))]})
    names = [*(["bin"] if binned else []), *by]
    found = pd.DataFrame([(*group, round(n)) for group, n in sums.items()], columns=[*names, "visitors"])
    if binned:
        found["bin"] = pd.to_datetime(found["bin"], unit="s", utc=True).astype("datetime64[us, UTC]")
    return found
