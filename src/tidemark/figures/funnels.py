"""Funnels: how many sessions or visitors took two to eight steps in order.

A step is a pattern of paths, and every step is another pageview, later in the order of pageviews than the one before;
anything may lie between. By session, the pageviews are the session's first 200. By visitor, all steps lie within a time
of the first, inclusive, over all starts, and the first step lies in the range while later ones may pass its end
(ClickHouse's windowFunnel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tidemark.figures import conditions, silver, walks
from tidemark.figures.columns import micros, whole
from tidemark.figures.declared import Definition, Step
from tidemark.figures.known import require_known
from tidemark.figures.query import query
from tidemark.figures.reader import again
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.walks import Walks

if TYPE_CHECKING:
    import pyarrow as pa

LABELS = ("channel", "country", "device")
_NONE = -1


@dataclass(frozen=True)
class Funnel:
    """`reached[w]` is the number of steps that walk w took; `seconds[k]` are the times from the first step to step k of
    the walks that reached it. `first` and `last` are the rows of each walk's first and last step, meaningless where it
    took none. `begun` has the key of each walk that took a step, and `began` the time of its first one, in microseconds
    since the epoch."""

    steps: tuple[Step, ...]
    reached: np.ndarray
    seconds: tuple[np.ndarray, ...]
    first: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    last: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    begun: pa.Table | None = None
    began: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def counts(self) -> list[int]:
        """How many walks took each step."""
        return [int((self.reached > k).sum()) for k in range(len(self.steps))]

    def table(self) -> pd.DataFrame:
        """Columns `name`, `count`, `of_first` and `of_previous` (shares, NaN where nobody was), and `median_seconds`,
        the time from the first step."""
        counts = np.array(self.counts, float)
        before = np.append(counts[:1], counts[:-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = {"of_first": counts / counts[0], "of_previous": counts / before}
        medians = [float(np.median(each)) if len(each) else float("nan") for each in self.seconds]
        names = [step.name for step in self.steps]
        return pd.DataFrame({"name": names, "count": self.counts, **shares, "median_seconds": medians})


def funnel(rows: Rows, selection: Selection, definition: Definition) -> Funnel:
    """The funnel of a selection. Raises NotKnownError by visitor over more than a day where visitors are known for a
    day only."""
    return _of_walks(_walks(rows, selection, definition), selection, definition)


def by(rows: Rows, selection: Selection, definition: Definition, counted: Funnel, label: str) -> pd.DataFrame:
    """Counts of each step of the selection's funnel by the values of a label, one of LABELS: that of the session, or of
    the session in which a visitor took the first step. Columns `label` and the numbers of the steps, most first."""
    if definition.visitor:
        values = _of_first_steps(rows, selection, label, counted.begun, counted.began)
    else:
        values = _of_sessions(rows, selection, label, counted.begun)
    reached = counted.reached[counted.reached > 0]
    counts = pd.DataFrame({k: (reached > k).astype(int) for k in range(len(counted.steps))})
    counts = counts.groupby(values).sum().rename_axis(label).reset_index()
    return counts.sort_values([0, label], ascending=[False, True]).reset_index(drop=True)  # type: ignore[list-item]


@again
def _of_sessions(rows: Rows, selection: Selection, column: str, owners: Any) -> np.ndarray:
    """The column of silver.sessions for walks that are sessions of the selection, with the keys `owners`."""
    import pyarrow.compute as pc

    wanted = query(silver.SESSIONS, ["session_id", column], conditions.within(selection, "start_time"))
    known = rows.reader.coded(wanted, [column]).read_all()
    place = whole(pc.index_in(known["session_id"], whole(owners["session_id"])))
    row_of = np.full(len(owners), -1)
    at = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    row_of[place.drop_null().to_numpy()] = at
    return _values(known[column], row_of)


@again
def _of_first_steps(
    rows: Rows, selection: Selection, column: str, owners: Any, times: np.ndarray
) -> np.ndarray:
    """The column of silver.sessions for walks that are visitors, with the keys `owners`: of the session in which the
    visitor's pageview of the time (microseconds since the epoch) lies."""
    import pyarrow.compute as pc

    names = ["site", "visitor_id", "start_time", column]
    wanted = query(silver.SESSIONS, names, conditions.reaching(selection))
    known = rows.reader.coded(wanted, ["site", column]).read_all()
    sites = {
        site for each in (known, owners) for site in pc.unique(each["site"].unify_dictionaries()).to_pylist()
    }
    place = whole(pc.index_in(*(_key(each, len(sites) > 1) for each in (known, owners))))
    at = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    who, started = place.drop_null().to_numpy(), micros(whole(known["start_time"]))[at]
    before = started <= times[who]
    at, who, started = at[before], who[before], started[before]
    # A visitor's sessions do not overlap, so it is the last one that started before.
    last = np.full(len(times), np.iinfo(np.int64).min)
    np.maximum.at(last, who, started)
    row_of = np.full(len(times), -1)
    is_last = started == last[who]
    row_of[who[is_last]] = at[is_last]
    return _values(known[column], row_of)


def _key(owners: Any, sites: bool) -> Any:
    """One text for each site and visitor, or, if there is only one site, for each visitor."""
    import pyarrow as pa
    import pyarrow.compute as pc

    visitor, site = (owners[name].cast(pa.string()) for name in ("visitor_id", "site"))
    return whole(pc.binary_join_element_wise(visitor, site, " ") if sites else visitor)


def _values(column: pa.ChunkedArray, row_of: np.ndarray) -> np.ndarray:
    """Values of these rows; the empty text where there is none, -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.unify_dictionaries().take(pa.array(row_of, mask=row_of < 0)).cast(pa.string())
    values: np.ndarray = pc.fill_null(texts, "").to_numpy()
    return values


def with_lost(
    rows: Rows, selection: Selection, definition: Definition, limit: int = 10
) -> tuple[Funnel, list[pd.DataFrame]]:
    """The funnel, and where those went who took a step but not the next one, for each step but the last: see `left_to`.
    By visitor, a pageview counts that lies within the time of the first step. Raises as `funnel`, whose reading is
    shorter."""
    all_walks = _walks(rows, selection, definition, whole=True)
    counted = _of_walks(all_walks, selection, definition)
    within = definition.within if definition.visitor else None
    steps = range(len(definition.steps) - 1)
    return counted, [left_to(all_walks, counted, step, limit, within) for step in steps]


def _walks(rows: Rows, selection: Selection, definition: Definition, *, whole: bool = False) -> Walks:
    """The walks that a funnel is of: by visitor only the pageviews that a step matches, or, if `whole`, all pageviews
    of the visitors whom the first step matches."""
    if not definition.visitor:
        return walks.of_sessions(rows, selection)
    if definition.within > timedelta(days=1):
        require_known(rows.reader, selection.site, "What visitors do over more than a day is")
    first = selection.end
    longer = selection if first is None else replace(selection, end=first + definition.within)
    patterns = [step.pattern for step in definition.steps]
    if whole:
        return walks.of_visitors(rows, longer, meeting=patterns[0])
    return walks.of_visitors(rows, longer, patterns)


def _of_walks(all_walks: Walks, selection: Selection, definition: Definition) -> Funnel:
    if definition.visitor:
        end = None if selection.end is None else round(selection.end.timestamp() * 1e6)
        counted = taken(all_walks, definition.steps, definition.within, end)
    else:
        counted = taken(all_walks, definition.steps)
    begun = np.flatnonzero(counted.reached)
    assert all_walks.owners is not None
    return replace(counted, begun=all_walks.owners.take(begun), began=all_walks.time[counted.first[begun]])


def taken(
    all_walks: Walks, steps: Sequence[Step], within: timedelta | None = None, end: int | None = None
) -> Funnel:
    """The deepest chain of steps of each walk, over all starts before `end` (microseconds since the epoch).

    For each row and step it keeps the latest start of a chain that takes the step there, because a later start leaves
    more time for the rest.
    """
    number, heads = len(all_walks.walk), all_walks.heads()
    begins = all_walks.matching(steps[0].pattern)
    if end is not None:
        begins &= all_walks.time < end
    start = np.where(begins, np.arange(number), _NONE)
    reached, seconds = np.zeros(all_walks.walks, int), []
    origin, last = np.zeros(all_walks.walks, np.int64), np.zeros(all_walks.walks, np.int64)
    for depth, step in enumerate(steps):
        if depth:
            before = np.append([_NONE], np.maximum.accumulate(start)[:-1]) if number else start
            possible = (before >= heads) & (before != _NONE) & all_walks.matching(step.pattern)
            if within is not None:
                possible &= all_walks.time - all_walks.time[before] <= round(within.total_seconds() * 1e6)
            start = np.where(possible, before, _NONE)
        row = all_walks.firsts(start != _NONE)
        who = all_walks.walk[row]
        reached[who] = depth + 1
        origin[who], last[who] = start[row], row
        begun = start[row] if within is not None else _first(all_walks, begins)[who]
        seconds.append((all_walks.time[row] - all_walks.time[begun]) / 1e6)
    return Funnel(tuple(steps), reached, tuple(seconds), origin, last)


def _first(all_walks: Walks, flags: np.ndarray) -> np.ndarray:
    """The first flagged row of each walk, 0 where there is none."""
    row = np.zeros(all_walks.walks, np.int64)
    at = all_walks.firsts(flags)
    row[all_walks.walk[at]] = at
    return row


def left_to(
    all_walks: Walks, counted: Funnel, step: int, limit: int = 10, within: timedelta | None = None
) -> pd.DataFrame:
    """The pageviews after `step` of the walks that did not take the next one: columns `path` (None: there was no
    further pageview) and `count`, most first. `all_walks` has all their pageviews; one that is more than `within`
    after the first step is none."""
    stopped = np.flatnonzero(counted.reached == step + 1)
    after = counted.last[stopped] + 1
    goes_on = after < len(all_walks.walk)
    goes_on[goes_on] = all_walks.walk[after[goes_on]] == stopped[goes_on]
    if within is not None:
        begun = all_walks.time[counted.first[stopped[goes_on]]]
        in_time = all_walks.time[after[goes_on]] - begun <= round(within.total_seconds() * 1e6)
        goes_on[goes_on] = in_time
    counts = np.bincount(all_walks.path[after[goes_on]], minlength=len(all_walks.paths))
    pairs: list[tuple[str | None, int]] = [
        (all_walks.paths[i], int(counts[i])) for i in np.flatnonzero(counts).tolist()
    ]
    if not goes_on.all():
        pairs.append((None, int((~goes_on).sum())))
    pairs.sort(key=lambda pair: (-pair[1], pair[0] or ""))
    return pd.DataFrame(pairs[:limit], columns=["path", "count"])
