"""Paths: the pages that sessions go through, level by level, from an entry or from a page, forward or backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import walks
from .rows import Rows
from .selection import Selection
from .walks import Walks

LEVELS = 5
SHOWN = 7
# Stand for the rest of a level, and for the end of a walk. No path is like them: one begins with a slash.
OTHER, LEFT = "other", "left"


@dataclass(frozen=True)
class Paths:
    """`levels[i]` has the columns `path` and `count`: the most frequent pages, then OTHER and LEFT where there are any.
    LEFT counts the walks that ended at the level before. `links` has the columns `level`, `source`, `target`, `count`:
    from a page of `level` to one of the next, or to LEFT."""

    levels: tuple[pd.DataFrame, ...]
    links: pd.DataFrame


def paths(
    rows: Rows, selection: Selection, page: str | None = None, *, backward: bool = False, shown: int = SHOWN
) -> Paths:
    """Paths of the sessions that started in the range: from their entry, or from the first occurrence of `page`."""
    return through(walks.of_sessions(rows, selection), page, backward=backward, shown=shown)


def through(
    found: Walks,
    page: str | None = None,
    *,
    backward: bool = False,
    levels: int = LEVELS,
    shown: int = SHOWN,
) -> Paths:
    """The levels of walks in which equal neighbours are one visit of the page.

    At each level, ties are in order of paths. What comes into a page equals what goes on from it and what left there.
    """
    names, placed = list(found.paths), _table(_collapsed(found), page, backward, levels)
    kept = [_shown(column, names, shown) for column in placed.T]
    nodes = np.array([_named(column, names, some) for column, some in zip(placed.T, kept, strict=True)])
    sheets, links = [], []
    for level in range(levels):
        here = nodes[level] if placed.size else np.zeros(0, object)
        before = nodes[level - 1] if level and placed.size else here
        # A walk that has ended has no further pages.
        present = here != "" if not level else (before != "") & (before != LEFT)
        counts = pd.Series(here[present], dtype=object).value_counts()
        sheets.append(_ordered(counts))
        if level:
            pairs = pd.DataFrame({"source": before[present], "target": here[present]})
            grouped = pairs.groupby(["source", "target"]).size().rename("count").reset_index()
            links.append(grouped.assign(level=level - 1))
    every = pd.concat(links, ignore_index=True)[["level", "source", "target", "count"]]
    return Paths(tuple(sheets), every)


def _collapsed(found: Walks) -> Walks:
    """Without the rows whose path is that of the row before in the same walk."""
    same = np.zeros(len(found.walk), bool)
    same[1:] = (found.walk[1:] == found.walk[:-1]) & (found.path[1:] == found.path[:-1])
    return Walks(found.walk[~same], found.time[~same], found.path[~same], found.paths, found.walks)


def _table(found: Walks, page: str | None, backward: bool, levels: int) -> np.ndarray:
    """One row per walk that has the start: its paths' indices from there on, -1 after its end."""
    number = len(found.walk)
    heads = found.heads()
    starts = np.unique(heads)
    if page is not None:
        at = np.flatnonzero(found.matching(page))
        _, first = np.unique(found.walk[at], return_index=True)
        starts = at[first]
    table = np.full((len(starts), levels), -1)
    for level in range(levels):
        place = starts - level if backward else starts + level
        inside = (place >= 0) & (place < number)
        inside[inside] = found.walk[place[inside]] == found.walk[starts[inside]]
        table[inside, level] = found.path[place[inside]]
    return table


def _shown(column: np.ndarray, names: Sequence[str], shown: int) -> set[int]:
    """The most frequent indices of a level."""
    index, counts = np.unique(column[column >= 0], return_counts=True)
    order = sorted(zip(index.tolist(), counts.tolist(), strict=True), key=lambda x: (-x[1], names[x[0]]))
    return {place for place, _ in order[:shown]}


def _named(column: np.ndarray, names: Sequence[str], some: set[int]) -> np.ndarray:
    # The index of a walk that has ended is -1, which is the last entry.
    called = [name if place in some else OTHER for place, name in enumerate(names)]
    return np.array([*called, LEFT], dtype=object)[column]


def _ordered(counts: pd.Series) -> pd.DataFrame:
    pairs = [(path, int(count)) for path, count in counts.items()]
    last = {OTHER: 1, LEFT: 2}
    pairs.sort(key=lambda pair: (last.get(pair[0], 0), -pair[1], pair[0]))
    return pd.DataFrame(pairs, columns=["path", "count"])
