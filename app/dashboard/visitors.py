"""Distinct visitors of any range and any grouping, by uniting the theta sketches kept in gold.

A visitor belongs to a site, so sketches are united within a site and the sites' counts are added.
Days are united once and kept; when rows of a day change, only that day is united again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from .query import Where, count, greatest, query, time_bin
from .reader import Reader, read

if TYPE_CHECKING:
    import datasketches

DAY = 86_400
# As the pipeline makes them: exact up to 2^20 distinct visitors.
LG_ENTRIES = 20

Sketches = dict[tuple[Any, ...], "datasketches.compact_theta_sketch"]


@dataclass
class SketchCache:
    """United sketches by (reader, table, filters, day), each with the fingerprint of the rows behind it."""

    entries: OrderedDict[tuple[Any, ...], tuple[Any, Sketches]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)
    limit: int = 600

    def get(self, key: tuple[Any, ...], fingerprint: Any) -> Sketches | None:
        with self.lock:
            found = self.entries.get(key)
            if found is None or found[0] != fingerprint:
                return None
            self.entries.move_to_end(key)
            return found[1]

    def put(self, key: tuple[Any, ...], fingerprint: Any, sketches: Sketches) -> None:
        with self.lock:
            self.entries[key] = (fingerprint, sketches)
            while len(self.entries) > self.limit:
                self.entries.popitem(last=False)


@st.cache_resource(show_spinner=False)
def _cache() -> SketchCache:
    return SketchCache()


def distinct(
    reader: Reader,
    table: str,
    where: Sequence[Where],
    *,
    by: Sequence[str] = (),
    bin_seconds: int | None = None,
    cache: SketchCache | None = None,
) -> pd.DataFrame:
    """Distinct visitors of the rows that `where` keeps, in a column `visitors`.

    Grouped by the columns `by` and, with `bin_seconds`, by `bin`, the start of the time bin that a
    row's `window_start` falls into. Without grouping, one row.
    """
    cache = _cache() if cache is None else cache
    days = read(
        reader,
        table,
        {"day": time_bin("window_start", DAY), "changed": greatest("updated_at"), "rows": count()},
        where,
        group_by=["day"],
    )
    width = None if bin_seconds is None else min(bin_seconds, DAY)
    united: Sketches = {}
    unions: dict[tuple[Any, ...], Any] = {}
    stale: list[tuple[Any, tuple[Any, ...], Any]] = []
    parts: list[Sketches] = []
    for day, changed, number in days.itertuples(index=False):
        key = (reader.label, table, tuple(where), tuple(by), width, day)
        known = cache.get(key, (changed, number))
        if known is None:
            stale.append((day, key, (changed, number)))
        else:
            parts.append(known)
    for key, fingerprint, sketches in _unite_days(reader, table, where, by, width, stale):
        cache.put(key, fingerprint, sketches)
        parts.append(sketches)
    for part in parts:
        for (site, moment, *group), sketch in part.items():
            _add(unions, (site, _floor(moment, bin_seconds), *group), sketch)
    united = {key: union.get_result() for key, union in unions.items()}
    return _counts(united, by, bin_seconds is not None)


def _unite_days(
    reader: Reader,
    table: str,
    where: Sequence[Where],
    by: Sequence[str],
    width: int | None,
    days: Sequence[tuple[Any, tuple[Any, ...], Any]],
) -> list[tuple[tuple[Any, ...], Any, Sketches]]:
    """The united sketches of each given day; days that lie together are read in one query."""
    if not days:
        return []
    import datasketches

    columns: dict[str, Any] = {"site": "site", "day": time_bin("window_start", DAY)}
    if width is not None:
        columns["bin"] = time_bin("window_start", width)
    columns |= {name: name for name in by} | {"sketch": "visitors_sketch"}
    first, last = min(d[0] for d in days), max(d[0] for d in days) + pd.Timedelta(seconds=DAY)
    limits = (Where("window_start", ">=", _time(first)), Where("window_start", "<", _time(last)))
    rows = reader.arrow(query(table, columns, (*where, *limits)))
    wanted = {_epoch(day): {} for day, _, _ in days}
    deserialize = datasketches.compact_theta_sketch.deserialize
    lists = [_plain(rows.column(name)) for name in columns]
    for site, day, *rest, sketch in zip(*lists, strict=True):
        unions = wanted.get(day)
        if unions is not None and sketch is not None:
            moment, group = (rest[0], rest[1:]) if width is not None else (None, rest)
            _add(unions, (site, moment, *group), deserialize(sketch))
    return [
        (key, fingerprint, {k: union.get_result() for k, union in wanted[_epoch(day)].items()})
        for day, key, fingerprint in days
    ]


def _plain(column: Any) -> list[Any]:
    """A column as Python values, times as whole epoch seconds: a fraction of the cost of datetimes."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return column.to_pylist()


def _add(unions: dict[tuple[Any, ...], Any], key: tuple[Any, ...], sketch: Any) -> None:
    union = unions.get(key)
    if union is None:
        import datasketches

        union = unions[key] = datasketches.theta_union(LG_ENTRIES)
    union.update(sketch)


def _counts(sketches: Sketches, by: Sequence[str], binned: bool) -> pd.DataFrame:
    sums: dict[tuple[Any, ...], int] = {}
    for (_, moment, *group), sketch in sketches.items():
        key = (moment, *group) if binned else tuple(group)
        sums[key] = sums.get(key, 0) + round(sketch.get_estimate())
    if not by and not binned:
        return pd.DataFrame({"visitors": [sum(sums.values())]})
    names = (["bin"] if binned else []) + list(by)
    found = pd.DataFrame([(*key, n) for key, n in sums.items()], columns=[*names, "visitors"])
    if binned:
        found["bin"] = pd.to_datetime(found["bin"], unit="s", utc=True)
    return found


def _floor(moment: int | None, seconds: int | None) -> int | None:
    return moment if moment is None or seconds is None else moment // seconds * seconds


def _epoch(moment: pd.Timestamp) -> int:
    return int(moment.timestamp())


def _time(moment: pd.Timestamp) -> datetime:
    return moment.to_pydatetime()
