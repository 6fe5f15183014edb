"""The pageviews of sessions, or of visitors, one after the other, as arrays.

Pageviews of the same time are in the order of path, query and referrer, so their order does not depend on arrival.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import conditions
from .query import AnyOf, Condition, Exists, Where, query
from .reader import plain
from .rows import Rows
from .selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

STEPS = "silver/session_steps"
VIEW = Where("pageview", "=", True)
_ORDER = ("site", "visitor_id", "event_time", "path", "query", "referrer")


@dataclass(frozen=True)
class Walks:
    """Pageviews of `walks` walks: each row's walk (numbers in ascending order), `time` in microseconds since the epoch,
    and `path` as an index into `paths`. `labels` are further columns of the rows, by name."""

    walk: np.ndarray
    time: np.ndarray
    path: np.ndarray
    paths: Sequence[str]
    walks: int
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)

    def heads(self) -> np.ndarray:
        """Each row's first row of the same walk."""
        first = np.ones(len(self.walk), bool)
        first[1:] = self.walk[1:] != self.walk[:-1]
        return np.maximum.accumulate(np.where(first, np.arange(len(self.walk)), 0))

    def matching(self, pattern: str) -> np.ndarray:
        """Whether each row's path matches a pattern, see `matches`."""
        found = np.array([matches(pattern, path) for path in self.paths], bool)
        return found[self.path] if len(found) else np.zeros(len(self.path), bool)


def matches(pattern: str, path: str) -> bool:
    """Whether a whole path without its query matches; `*` stands for any characters, also `/`, and case matters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), path, re.DOTALL) is not None


def of_sessions(rows: Rows, selection: Selection, labels: Sequence[str] = ()) -> Walks:
    """The steps of the sessions that started in the range; `labels` are columns of silver.sessions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    where = conditions.within(selection, "start_time")
    found = plain(rows.reader.arrow(query(STEPS, ["session_id", "steps"], where)))
    wanted = query(conditions.SESSIONS, ["session_id", *labels], conditions.of_sessions(selection))
    known = plain(rows.reader.arrow(wanted)) if selection.filters or labels else None
    if known is not None:
        place = pc.index_in(found["session_id"], known["session_id"].combine_chunks())
        found = found.filter(pc.is_valid(place))
        known = known.take(pc.drop_null(place))
    steps = _whole(found["steps"])
    lengths = pc.fill_null(pc.list_value_length(steps), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    walk = np.repeat(np.arange(len(lengths)), lengths)
    flat = pc.list_flatten(steps)
    fields = [pc.struct_field(flat, name) for name in ("time", "path")] if len(flat) else [pa.array([])] * 2
    own = {name: _values(known[name])[walk] for name in labels} if known is not None else {}
    return _walks(walk, fields[0], fields[1], len(lengths), own)


def of_visitors(
    rows: Rows,
    selection: Selection,
    patterns: Sequence[str] = (),
    labels: Sequence[str] = (),
    meeting: str = "",
) -> Walks:
    """The pageviews in the range, one walk for each visitor of a site. If there are `patterns`, only those that match
    one of them. `labels` are columns of silver.requests. With `meeting`, a pattern, visitors without a pageview that
    matches it may be left out."""
    import pyarrow as pa

    where = (*conditions.of_lines(selection), VIEW)
    if patterns:
        where = (*where, AnyOf(tuple(map(likely, patterns))))
    if meeting:
        same = (("site", "=", "site"), ("visitor_id", "=", "visitor_id"))
        met = (*conditions.within(selection, "event_time"), VIEW, likely(meeting))
        where = (*where, Exists(conditions.REQUESTS, same, met))
    columns = tuple(dict.fromkeys((*_ORDER, *labels)))
    found = plain(rows.reader.arrow(query(conditions.REQUESTS, columns, where)))
    if patterns:
        paths = _whole(found["path"]).dictionary_encode()
        kept = [any(matches(p, path) for p in patterns) for path in paths.dictionary.to_pylist()]
        found = found.filter(pa.array(kept, pa.bool_()).take(paths.indices))
    found = found.sort_by([(name, "ascending") for name in _ORDER])
    site, visitor = (_whole(found[name]).dictionary_encode().indices.to_numpy() for name in _ORDER[:2])
    new = np.ones(found.num_rows, bool)
    new[1:] = (site[1:] != site[:-1]) | (visitor[1:] != visitor[:-1])
    own = {name: _values(found[name]) for name in labels}
    walk = np.cumsum(new) - 1
    return _walks(walk, _whole(found["event_time"]), _whole(found["path"]), int(new.sum()), own)


def likely(pattern: str) -> Condition:
    """A condition that keeps every path that matches, and few others."""
    start, *rest = pattern.split("*")
    if not rest:
        return Where("path", "=", pattern)
    if start:
        return Where("path", "starts with", start)
    longest = max(rest, key=len)
    return Where("path", "contains", longest) if longest else Where("path", "is not null")


def _walks(walk: np.ndarray, time: Any, path: Any, number: int, labels: Mapping[str, np.ndarray]) -> Walks:
    import pyarrow as pa

    if not len(walk):
        return Walks(walk, np.zeros(0, np.int64), np.zeros(0, np.int64), [], number, labels)
    micros = time.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    codes = path.cast(pa.string()).dictionary_encode()
    return Walks(walk, micros, codes.indices.to_numpy(), codes.dictionary.to_pylist(), number, labels)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    found = column.combine_chunks()
    if not isinstance(found, pa.ChunkedArray):
        return found
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], column.type)


def _values(column: pa.ChunkedArray) -> np.ndarray:
    import pyarrow.compute as pc

    return pc.fill_null(column, "").to_numpy()
