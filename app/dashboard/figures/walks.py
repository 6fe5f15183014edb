"""The pageviews of sessions, or of visitors, one after the other, as arrays.

Pageviews of the same time are in the order of their paths, so their order does not depend on arrival. No figure of
walks depends on the order of pageviews of the same time and path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import conditions, longer, silver
from .query import AnyOf, Condition, Where, query
from .ranges import ranges
from .reader import plain
from .rows import Rows
from .selection import Selection
from .silver import VIEW

if TYPE_CHECKING:
    import pyarrow as pa


_VISITOR = ["site", "visitor_id"]


@dataclass(frozen=True)
class Walks:
    """Pageviews of `walks` walks: each row's walk (numbers in ascending order), `time` in microseconds since the epoch,
    and `path` as an index into `paths`. `owners` has the key of each walk: a session's, or a site and a visitor."""

    walk: np.ndarray
    time: np.ndarray
    path: np.ndarray
    paths: Sequence[str]
    walks: int
    owners: pa.Table | None = None

    def heads(self) -> np.ndarray:
        """Each row's first row of the same walk."""
        first = np.ones(len(self.walk), bool)
        first[1:] = self.walk[1:] != self.walk[:-1]
        return np.maximum.accumulate(np.where(first, np.arange(len(self.walk)), 0))

    def firsts(self, flags: np.ndarray | None = None) -> np.ndarray:
        """The first row of each walk, or the first that is flagged of each that has one."""
        at = None if flags is None else np.flatnonzero(flags)
        walk = self.walk if at is None else self.walk[at]
        new = np.append(np.ones(min(len(walk), 1), bool), walk[1:] != walk[:-1])
        return np.flatnonzero(new) if at is None else at[new]

    def matching(self, pattern: str) -> np.ndarray:
        """Whether each row's path matches a pattern, see `matches`."""
        found = np.array([matches(pattern, path) for path in self.paths], bool)
        return found[self.path] if len(found) else np.zeros(len(self.path), bool)


def matches(pattern: str, path: str) -> bool:
    """Whether a whole path without its query matches; `*` stands for any characters, also `/`, and case matters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), path, re.DOTALL) is not None


def of_sessions(rows: Rows, selection: Selection, *, owned: bool = True) -> Walks:
    """The steps of the sessions that started in the range. Without owners if these are not `owned`."""
    import pyarrow.compute as pc

    where = conditions.within(selection, "start_time")
    ids = ["session_id"] if owned or selection.filters else []
    found = rows.reader.coded(query(silver.STEPS, [*ids, "steps"], where), ("steps.path",))
    if selection.filters:
        wanted = query(silver.SESSIONS, ["session_id"], conditions.of_sessions(selection, rows))
        kept = plain(rows.reader.arrow(wanted))["session_id"]
        found = found.filter(pc.is_in(found["session_id"], whole(kept)))
    session, time, path, paths = _steps_of(found)
    return Walks(session, time, path, paths, len(found), found.select(ids) if owned else None)


def of_visitors(rows: Rows, selection: Selection, patterns: Sequence[str] = (), meeting: str = "") -> Walks:
    """The pageviews in the range, one walk for each visitor of a site. If there are `patterns`, only those that match
    one of them. With `meeting`, a pattern, only visitors with a pageview that matches it."""
    found = _from_steps(rows, selection, patterns) or _from_requests(rows, selection, patterns)
    path, paths = found.path, found.paths
    at = np.arange(len(path))
    if meeting:
        met = np.zeros(found.owner.max(initial=-1) + 1, bool)
        met[found.owner_at(np.flatnonzero(_any_of([meeting], paths)[path]))] = True
        at = np.flatnonzero(met[found.owner][found.row])
    at = at[found.order(at)]
    owner = found.owner_at(at)
    new = np.ones(len(owner), bool)
    new[1:] = owner[1:] != owner[:-1]
    owners = found.owners.take(found.row[at[new]])
    return Walks(np.cumsum(new) - 1, found.time[at], path[at], paths, int(new.sum()), owners)


@dataclass(frozen=True)
class _Views:
    """Pageviews: `time` in microseconds since the epoch, `path` as an index into `paths`, and `row` as an index into
    `owners`, which have a site and a visitor, and into `owner`, the same as a number. With `place`, these rows are
    sessions whose pageviews are in order, and it has each one's place in the order of visitors and time."""

    row: np.ndarray
    time: np.ndarray
    path: np.ndarray
    paths: Sequence[str]
    owners: pa.Table
    owner: np.ndarray
    place: np.ndarray | None = None

    def owner_at(self, at: np.ndarray) -> np.ndarray:
        """The visitors of these pageviews."""
        return self.owner[self.row[at]]

    def order(self, at: np.ndarray) -> np.ndarray:
        """The order of these pageviews by visitor, then time, then path."""
        if self.place is None:
            return ordered(self.owner_at(at), self.time[at], _places(self.paths)[self.path[at]])
        lengths = np.bincount(self.row[at], minlength=len(self.place))
        return ranges(np.cumsum(lengths) - lengths, lengths, self.place)


def _from_requests(rows: Rows, selection: Selection, patterns: Sequence[str]) -> _Views:
    where = (*conditions.of_lines(selection), VIEW)
    if patterns:
        where = (*where, AnyOf(tuple(map(likely, patterns))))
    columns = ("site", "visitor_id", "event_time", "path")
    found = rows.reader.coded(query(silver.REQUESTS, columns, where), ("path", "site"))
    path, paths = _coded(found["path"])
    if patterns:
        kept = _any_of(patterns, paths)[path]
        found, path = found.filter(kept), path[kept]
    time, owners = micros(whole(found["event_time"])), found.select(_VISITOR)
    return _Views(np.arange(len(path)), time, path, paths, owners, _owner(found))


def _from_steps(rows: Rows, selection: Selection, patterns: Sequence[str]) -> _Views | None:
    """The pageviews by the sessions in which they lie, which are a fifth as many rows. None where lines are filtered,
    or where silver.session_steps does not have all sessions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if selection.filters:
        return None
    where = conditions.reaching(selection)
    known = longer.sessions(rows, where, where)
    if known is None:
        return None
    ids = ["session_id"] if len(known) else []
    asked = query(silver.STEPS, [*ids, *_VISITOR, "start_time", "steps"], where)
    found = rows.reader.coded(asked, ("steps.path", "site"))
    left_out = np.zeros(0, bool)
    if ids:
        whole_ones = longer.steps(rows, known, found.schema)
        # The first steps of these sessions are only flagged: a table without them would be a copy.
        partly = pc.is_in(found["session_id"], whole(whole_ones["session_id"]))
        left_out = np.append(partly.to_numpy(), np.zeros(len(whole_ones), bool))
        found = pa.concat_tables([found, whole_ones])
    row, time, path, paths = _steps_of(found)
    kept = ~left_out[row] if ids else np.ones(len(row), bool)
    for bound, keeps in ((selection.start, np.greater_equal), (selection.end, np.less)):
        if bound is not None:
            kept &= keeps(time, round(bound.timestamp() * 1e6))
    if patterns:
        kept &= _any_of(patterns, paths)[path]
    if not kept.all():
        row, time, path = row[kept], time[kept], path[kept]
        with_some = np.zeros(len(found), bool)
        with_some[row] = True
        found = found.filter(with_some)
        row = (np.cumsum(with_some) - 1)[row]
    owner = _owner(found)
    place = ordered(owner, micros(whole(found["start_time"])), np.zeros(len(owner), np.int64))
    return _Views(row, time, path, paths, found.select(_VISITOR), owner, place)


def _owner(found: pa.Table) -> np.ndarray:
    """A number for the site and visitor of each row."""
    (site, _), (visitor, visitors) = (_coded(found[name]) for name in _VISITOR)
    owner: np.ndarray = site.astype(np.int64) * len(visitors) + visitor
    return owner


def _steps_of(found: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """All steps of sessions, one after the other: each one's session, time, and path as an index, and the paths."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Lists that are put together are copied, their elements need not be.
    lists = found["steps"].chunks
    lengths = [pc.fill_null(pc.list_value_length(each), 0).to_numpy(zero_copy_only=False) for each in lists]
    flat = [pc.list_flatten(each) for each in lists]
    step = found.schema.field("steps").type.value_type
    time, path = (
        pa.chunked_array([pc.struct_field(each, name) for each in flat], step.field(name).type)
        for name in ("time", "path")
    )
    codes, paths = _coded(path)
    number = np.concatenate([np.zeros(0, np.int32), *lengths])
    return np.repeat(np.arange(len(number), dtype=np.int32), number), micros(whole(time)), codes, paths


def ordered(owner: np.ndarray, time: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The order of rows by owner, then time, then place."""
    first, last = (int(time.min()), int(time.max())) if len(time) else (0, 0)
    span = last - first + 1
    if (int(owner.max(initial=0)) + 1) * span >= 2**63:
        return np.lexsort((place, time, owner))
    # One number for owner and time sorts several times as fast, and few rows have the same.
    key = owner * span + (time - first)
    order = np.argsort(key)
    key = key[order]
    same = key[1:] == key[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    order[tied] = order[tied][np.lexsort((place[order[tied]], key[tied]))]
    return order


def _any_of(patterns: Sequence[str], paths: Sequence[str]) -> np.ndarray:
    return np.array([any(matches(pattern, path) for pattern in patterns) for path in paths], bool)


def _places(paths: Sequence[str]) -> np.ndarray:
    """The place of each path in their order."""
    place = np.zeros(len(paths), np.int64)
    place[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(len(paths))
    return place


def likely(pattern: str) -> Condition:
    """A condition that keeps every path that matches, and few others."""
    start, *rest = pattern.split("*")
    if not rest:
        return Where("path", "=", pattern)
    if start:
        return Where("path", "starts with", start)
    longest = max(rest, key=len)
    return Where("path", "contains", longest) if longest else Where("path", "is not null")


def _coded(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Text, or numbers of text, as indices into its distinct values."""
    import pyarrow as pa

    if not len(column):
        return np.zeros(0, np.int32), []
    is_coded = pa.types.is_dictionary(column.type)
    codes = whole(column.unify_dictionaries() if is_coded else column.cast(pa.string()).dictionary_encode())
    return codes.indices.to_numpy(), codes.dictionary.to_pylist()


def micros(time: pa.Array) -> np.ndarray:
    import pyarrow as pa

    if not len(time):
        return np.zeros(0, np.int64)
    found: np.ndarray = time.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def whole(column: Any) -> pa.Array:
    """A column in one piece."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
