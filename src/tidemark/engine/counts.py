"""Sums, distinct visitors and histograms per event-time window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Newest, in_range, stamped
from tidemark.contract.expression import Expression, evaluated
from tidemark.contract.store import Where
from tidemark.contract.table import Change
from tidemark.engine import histograms, sketches
from tidemark.engine.arrays import Flags, flags_of, where
from tidemark.engine.groups import Column, Groups, How, decoded, encoded, semi_join, whole
from tidemark.figures.sketches import WHOLE

_MICROSECONDS = 1_000_000
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Sum:
    """The contribution of each row to a sum: 1, the value of a column (a flag is 1 or 0, NULL is 0), or 1 if the value
    is within bounds; 0 unless the condition `where` is true."""

    column: str = ""
    within: tuple[int, int] | None = None
    where: Expression | None = field(default=None, compare=False)

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset([self.column] if self.column else []) | (
            self.where.columns if self.where is not None else frozenset()
        )

    def of(self, rows: pa.Table) -> Column:
        """The contributions of the rows: flags, or numbers (long)."""
        held = np.ones(rows.num_rows, bool) if self.where is None else _holds(self.where, rows)
        if not self.column:
            return pa.array(held)
        values = whole(rows[self.column])
        if self.within:
            least, most = self.within
            values = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
        if pa.types.is_boolean(values.type):
            return pa.array(held & flags_of(values))
        return where(held, pc.fill_null(values.cast(pa.int64()), 0), 0)

    def __str__(self) -> str:
        condition = f" where {self.where.sql}" if self.where is not None else ""
        if self.within:
            return f"rows with {self.column} {self.within[0]} to {self.within[1]}{condition}"
        return (f"sum of {self.column}" if self.column else "rows") + condition


ROWS = Sum()


@dataclass(frozen=True)
class Text:
    """A text column of the key: NULL is the empty string, and text is cut after `most` characters. `of` is the column
    of the source's rows if its name differs."""

    name: str
    of: str = ""
    most: int | None = None

    def value(self, rows: pa.Table) -> pa.DictionaryArray:
        """The column, dictionary-encoded."""
        column = encoded(rows[self.of or self.name])
        text = pc.fill_null(column.dictionary, "")
        if self.most is not None:
            text = pc.utf8_slice_codeunits(text, 0, self.most)
        # Values that became equal are one.
        different = text.dictionary_encode()
        return pa.DictionaryArray.from_arrays(different.indices.take(column.indices), different.dictionary)


@dataclass(frozen=True)
class Number:
    """A column of whole numbers of the key: NULL is 0."""

    name: str
    of: str = ""

    def value(self, rows: pa.Table) -> Column:
        """The column."""
        return pc.fill_null(rows[self.of or self.name], 0)


@dataclass(frozen=True)
class Histogram:
    """A map from a whole number of each row to how many rows have it, of those for which `where` is true.

    `number` makes the numbers (int) of the values of `column`, NULL for rows that are left out; `about` says how.
    """

    column: str
    about: str
    number: Callable[[pa.Array], pa.Array] = field(compare=False)
    where: Expression | None = field(default=None, compare=False)

    @property
    def needs(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset([self.column]) | (self.where.columns if self.where is not None else frozenset())

    def of(self, rows: pa.Table, groups: Groups) -> pa.MapArray:
        """One map per group of the rows."""
        values, group = whole(rows[self.column]), groups.of
        if self.where is not None:
            held = _holds(self.where, rows)
            values, group = values.filter(pa.array(held)), group[held]
        return histograms.of_rows(group, self.number(values), len(groups))

    def __str__(self) -> str:
        return f"rows by {self.about}" + (f" where {self.where.sql}" if self.where is not None else "")


@dataclass(frozen=True)
class WindowedCounts:
    """Sums and distinct visitors per site, tumbling window of `seconds`, and further columns `by`.

    Counts the rows for which `where` is true. Their time is the column `time`; the key has the start of the window as
    `start`, and the table `window_end` with a `window_start`. Visitors are `people`, who are no bots, those of all
    rows, or not counted. `bounds` are smallest or largest values of columns, `histograms` maps.
    """

    seconds: int
    sums: Mapping[str, Sum]
    by: tuple[str | Text | Number, ...] = ()
    where: Expression | None = field(default=None, compare=False)
    bounds: Mapping[str, tuple[str, Literal["min", "max"]]] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    visitors: Literal["people", "all", "none"] = "people"
    start: str = "window_start"
    time: str = "event_time"

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the table."""
        return ("site", self.start, *(each if isinstance(each, str) else each.name for each in self.by))

    @property
    def needs(self) -> tuple[str, ...]:
        names = ["site", self.time]
        names += ["visitor_id"] if self.visitors != "none" else []
        names += ["bot"] if self.visitors == "people" else []
        names += [each if isinstance(each, str) else each.of or each.name for each in self.by]
        names += sorted(self.where.columns) if self.where is not None else []
        for sum_ in self.sums.values():
            names += sorted(sum_.needs)
        for histogram in self.histograms.values():
            names += sorted(histogram.needs)
        names += [column for column, _ in self.bounds.values()]
        return tuple(dict.fromkeys(names))

    @property
    def encodes(self) -> tuple[str, ...]:
        """The columns of its `needs` by which it groups, where they are text."""
        by = (each if isinstance(each, str) else each.of or each.name for each in self.by)
        return ("site", *(["visitor_id"] if self.visitors != "none" else []), *by)

    @property
    def identity(self) -> Mapping[str, str]:
        identity = {"window": f"{self.seconds} s"}
        identity |= {name: str(each) for name, each in (*self.sums.items(), *self.histograms.items())}
        identity |= {name: f"{how} of {column}" for name, (column, how) in self.bounds.items()}
        shortened = (each for each in self.by if isinstance(each, Text) and each.most is not None)
        identity |= {each.name: f"at most {each.most} characters" for each in shortened}
        # What a flag means is recorded with the rows that have it.
        if self.where is not None and self.where.sql not in self.where.columns:
            identity["rows"] = self.where.sql
        if self.visitors != "none":
            identity["visitors_sketch"] = f"theta sketch of 2^{sketches.LG_ENTRIES}"
        return identity

    @property
    def window_seconds(self) -> int:
        return self.seconds

    def at(self, newest: Newest) -> WindowedCounts:
        return self

    def partial(self, rows: pa.Table) -> pa.Table:
        """Key, sums, bounds, histograms and, with visitors, their `hashes` (list of uint64) and `theta`, see
        `tidemark.engine.sketches`."""
        if self.where is not None:
            rows = rows.filter(pa.array(_holds(self.where, rows)))
        keys: dict[str, Column] = {"site": rows["site"], self.start: self._start(rows[self.time])}
        for each in self.by:
            keys |= {each: rows[each]} if isinstance(each, str) else {each.name: each.value(rows)}
        groups = Groups.by(list(keys.values()))
        values = {name: each.of(rows) for name, each in self.sums.items()}
        values |= {name: rows[column] for name, (column, _) in self.bounds.items()}
        maps = {name: each.of(rows, groups) for name, each in self.histograms.items()}
        return self._rows(groups, keys, values, maps, self._visitors(rows, groups))

    def merge(self, partials: pa.Table) -> pa.Table:
        groups = Groups.by([partials[name] for name in self.key])
        keys = {name: partials[name] for name in self.key}
        values = {name: partials[name] for name in (*self.sums, *self.bounds)}
        maps = {
            name: histograms.merged(groups.of, whole(partials[name]), len(groups)) for name in self.histograms
        }
        visitors = None
        if self.visitors != "none":
            rows, hashes, theta = sketches.of_lists(whole(partials["hashes"]), whole(partials["theta"]))
            least = np.full(len(groups), WHOLE)
            np.minimum.at(least, groups.of, theta)
            visitors = sketches.unite(groups.of[rows], hashes, least)
        return self._rows(groups, keys, values, maps, visitors)

    def touched(self, partials: pa.Table) -> Where:
        return in_range(self.start, partials)

    def combine(self, existing: pa.Table, partials: pa.Table) -> Change:
        own = [*self.key, *self.sums, *self.bounds, *self.histograms]
        sketched = ["visitors_sketch"] if self.visitors != "none" else []
        before = semi_join(existing.select([*own, *sketched]), partials, self.key)
        kept = before.select(own)
        if sketched:
            known = sketches.of_bytes(before["visitors_sketch"])
            kept = kept.append_column("hashes", known.to_lists()).append_column(
                "theta", pa.array(known.theta)
            )
        merged = self.merge(
            pa.concat_tables([kept.select(partials.column_names).cast(partials.schema), partials])
        )
        updated = merged.select(own)
        if self.start == "window_start":
            width = pa.scalar(self.seconds * _MICROSECONDS, pa.duration("us"))
            updated = updated.append_column("window_end", pc.add(merged[self.start], width))
        if sketched:
            rows, hashes, theta = sketches.of_lists(whole(merged["hashes"]), whole(merged["theta"]))
            visitors = sketches.unite(rows, hashes, theta).limited()
            updated = updated.append_column("visitors", visitors.counts())
            updated = updated.append_column("visitors_sketch", visitors.to_bytes())
        return Change(stamped(updated))

    def _visitors(self, rows: pa.Table, groups: Groups) -> sketches.Sketches | None:
        if self.visitors == "none":
            return None
        group, visitors = groups.of, whole(rows["visitor_id"])
        if self.visitors == "people":
            people = ~flags_of(whole(rows["bot"]))
            group, visitors = group[people], visitors.filter(pa.array(people))
        return sketches.of_values(group, visitors, len(groups))

    def _rows(
        self,
        groups: Groups,
        keys: Mapping[str, Column],
        values: Mapping[str, Column],
        maps: Mapping[str, pa.MapArray],
        visitors: sketches.Sketches | None,
    ) -> pa.Table:
        columns: dict[str, tuple[Column, How]] = {name: (keys[name], "first") for name in self.key}
        columns |= {name: (values[name], "sum") for name in self.sums}
        columns |= {name: (values[name], how) for name, (_, how) in self.bounds.items()}
        rows = {**groups.aggregate(columns), **maps}
        if visitors is not None:
            rows |= {"hashes": visitors.to_lists(), "theta": pa.array(visitors.theta)}
        return pa.table(rows)

    def _start(self, time: pa.ChunkedArray) -> pa.Array:
        width = self.seconds * _MICROSECONDS
        micros = np.asarray(time.cast(pa.int64()))
        return pa.array(micros // width * width).cast(_TIME)


def _holds(condition: Expression, rows: pa.Table) -> Flags:
    """For each row, whether the condition is true."""
    names = sorted(condition.columns)
    if condition.sql in names:  # a flag
        return flags_of(whole(rows[condition.sql]))
    if len(names) == 1 and pa.types.is_dictionary(rows.schema.field(names[0]).type):
        values = encoded(rows[names[0]])
        held: Flags = _held(condition, pa.table({names[0]: values.dictionary}))[values.indices.to_numpy()]
        return held
    return _held(condition, decoded(rows.select(names)))


def _held(condition: Expression, rows: pa.Table) -> Flags:
    return flags_of(whole(evaluated({"held": condition.arrow}, rows)["held"]))
