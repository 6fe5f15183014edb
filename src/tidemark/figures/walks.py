"""The pageviews of sessions, or of visitors, one after the other, as arrays.

Pageviews of the same time are in the order of their paths, so their order does not depend on arrival. No figure of
walks depends on the order of pageviews of the same time and path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from tidemark.figures import conditions, longer, silver, steps
from tidemark.figures.columns import coded, micros, ranges, whole
from tidemark.figures.query import AnyOf, Condition, Where, query
from tidemark.figures.reader import again, plain
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.silver import VIEW
from tidemark.figures.steps import CODED, Paths, Steps

if TYPE_CHECKING:
    import pyarrow as pa


_VISITOR = ["site", "visitor_id"]
_OWNER = "owner"


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
        return Matching([pattern])(self.path, self.paths)


def matches(pattern: str, path: str) -> bool:
    """Whether a whole path without its query matches; `*` stands for any characters, also `/`, and case matters."""
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


class Matching:
    """Whether paths match one of some patterns, each looked at once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._flags = np.zeros(0, bool)

    def __call__(self, path: np.ndarray, paths: Sequence[str]) -> np.ndarray:
        """Whether each of these indices into `paths` is one that matches. More paths can have been added since the
        last time."""
        new = paths[len(self._flags) :]
        also = [any(matches(pattern, path) for pattern in self._patterns) for path in new]
        self._flags = np.append(self._flags, np.array(also, bool))
        flags: np.ndarray = self._flags[path]
        return flags


def by_sessions(rows: Rows, selection: Selection, paths: Paths, ids: Sequence[str] = ()) -> Iterator[Steps]:
    """The steps of the sessions that started in the range, with the columns `ids`."""
    import pyarrow.compute as pc

    where = conditions.within(selection, "start_time")
    if not selection.filters:
        return steps.batches(rows.reader.coded(query(silver.STEPS, [*ids, "steps"], where), CODED), paths)
    wanted = query(silver.SESSIONS, ["session_id"], conditions.of_sessions(selection, rows), counted=True)
    known = whole(plain(rows.reader.arrow(wanted))["session_id"])
    # All at once: each comparison with the known ones makes a table of them first.
    steps_read = rows.reader.coded(query(silver.STEPS, ["session_id", "steps"], where), CODED).read_all()
    return steps.batches(steps_read.filter(pc.is_in(steps_read["session_id"], known)).to_reader(), paths)


@again
def of_sessions(rows: Rows, selection: Selection) -> Walks:
    """The steps of the sessions that started in the range."""
    paths = Paths()
    return of_steps(steps.together(list(by_sessions(rows, selection, paths, ["session_id"]))), paths)


def of_steps(steps_read: Steps, paths: Paths) -> Walks:
    """Each session as a walk."""
    return Walks(
        steps_read.session,
        steps_read.time,
        steps_read.path,
        paths.names,
        len(steps_read.owners),
        steps_read.owners,
    )


@again
def of_visitors(rows: Rows, selection: Selection, patterns: Sequence[str] = (), meeting: str = "") -> Walks:
    """The pageviews in the range, one walk for each visitor of a site. If there are `patterns`, only those that match
    one of them. With `meeting`, a pattern, only visitors with a pageview that matches it."""
    paths = Paths()
    parts = _by_steps(rows, selection, patterns, paths) or _by_lines(rows, selection, patterns, paths)
    parts = _numbered(parts)
    if meeting:
        parts = _who_met(parts, Matching([meeting]), paths)
    joined = steps.together(parts)
    lengths = np.bincount(joined.session, minlength=len(joined.owners))
    first = np.cumsum(lengths) - lengths
    some = np.flatnonzero(lengths)
    # Only lines by themselves can begin at the same time.
    tie = np.zeros(len(lengths), np.int64)
    tie[some] = _places(paths.names)[joined.path[first[some]]]
    owner = joined.owners[_OWNER].to_numpy()
    order = ordered(owner, micros(whole(joined.owners["start_time"])), tie)
    order = order[lengths[order] > 0]
    owner = owner[order]
    new = np.ones(len(order), bool)
    new[1:] = owner[1:] != owner[:-1]
    walk = np.repeat(np.cumsum(new, dtype=np.int32) - 1, lengths[order])
    at = ranges(first, lengths, order)
    owners = joined.owners.select(_VISITOR).take(order[new])
    return Walks(walk, joined.time[at], joined.path[at], paths.names, int(new.sum()), owners)


def _by_lines(rows: Rows, selection: Selection, patterns: Sequence[str], paths: Paths) -> list[Steps]:
    where = (*conditions.of_lines(selection), VIEW)
    if patterns:
        where = (*where, AnyOf(tuple(map(likely, patterns))))
    wanted = Matching(patterns)
    wanted_columns = query(silver.REQUESTS, (*_VISITOR, "event_time", "path"), where)
    return [
        part.only(wanted(part.path, paths.names)) if patterns else part
        for part in steps.lines(rows.reader.coded(wanted_columns, CODED), paths)
    ]


def _by_steps(rows: Rows, selection: Selection, patterns: Sequence[str], paths: Paths) -> list[Steps] | None:
    """The pageviews by the sessions in which they lie, which are a fifth as many rows. None where lines are filtered,
    or where silver.session_steps does not have all sessions."""
    if selection.filters:
        return None
    where = conditions.reaching(selection)
    known = longer.sessions(rows, where, where)
    if known is None:
        return None
    wanted_columns = query(silver.STEPS, [*_VISITOR, "start_time", "steps"], where)
    wanted = Matching(patterns) if patterns else None
    with ThreadPoolExecutor(1) as beside:
        long = beside.submit(longer.views, rows, known)
        parts = steps.batches(
            rows.reader.coded(wanted_columns, CODED),
            paths,
            kept=lambda batch: longer.left_out(batch, known),
            more=lambda schema: longer.steps(known, long.result(), schema),
        )
        return [_only(part, selection, wanted, paths) for part in parts]


def _only(part: Steps, selection: Selection, wanted: Matching | None, paths: Paths) -> Steps:
    """The pageviews in the range that are wanted."""
    kept = [] if wanted is None else [wanted(part.path, paths.names)]
    for bound, keeps in ((selection.start, np.greater_equal), (selection.end, np.less)):
        if bound is not None:
            kept.append(keeps(part.time, round(bound.timestamp() * 1e6)))
    return part.only(reduce(np.logical_and, kept)) if kept else part


def _numbered(parts: Sequence[Steps]) -> list[Steps]:
    """With a number for each site and visitor as the column _OWNER."""
    import pyarrow as pa

    (site, _), (visitor, visitors) = (
        coded(pa.concat_tables([part.owners.select([name]) for part in parts])[name]) for name in _VISITOR
    )
    numbers = pa.array(site.astype(np.int64) * len(visitors) + visitor)
    numbered, first = [], 0
    for part in parts:
        own = numbers.slice(first, len(part.owners))
        numbered.append(replace(part, owners=part.owners.append_column(_OWNER, own)))
        first += len(own)
    return numbered


def _who_met(parts: Sequence[Steps], wanted: Matching, paths: Paths) -> list[Steps]:
    """The pageviews of the visitors with one that is wanted."""
    owners = [part.owners[_OWNER].to_numpy() for part in parts]
    met = np.zeros(1 + max(own.max(initial=-1) for own in owners), bool)
    for part, own in zip(parts, owners, strict=True):
        met[own[part.session[wanted(part.path, paths.names)]]] = True
    return [part.only(met[own][part.session]) for part, own in zip(parts, owners, strict=True)]


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
