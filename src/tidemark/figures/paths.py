"""Paths: the pages that sessions go through, level by level, from an entry or from a page, forward or backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tidemark.figures import steps, walks
from tidemark.figures.reader import again
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.walks import Matching, Walks

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


@again
def paths(
    rows: Rows,
    selection: Selection,
    page: str | None = None,
    *,
    backward: bool = False,
    shown: int = SHOWN,
    folded: bool = False,
) -> Paths:
    """Paths of the sessions that started in the range: from their entry, or from the first occurrence of `page`. With
    `folded`, all pages of a folder are one, such as /products/*."""
    seen, begins = steps.Paths(), None if page is None else Matching([page])
    folders = Folders()
    placed = []
    for part in walks.by_sessions(rows, selection, seen):
        walked = walks.of_steps(part, seen)
        placed.append(places(folders(walked) if folded else walked, begins, backward=backward))
    return through(np.concatenate(placed), folders.names if folded else seen.names, shown)


class Folders:
    """Makes the pages of walks their folders, each looked at once; `names` are the folders so far."""

    def __init__(self) -> None:
        self._folders = steps.Paths()
        self._codes = np.zeros(0, np.int32)

    @property
    def names(self) -> list[str]:
        return self._folders.names

    def __call__(self, all_walks: Walks) -> Walks:
        new = [folder(path) for path in all_walks.paths[len(self._codes) :]]
        self._codes = np.append(self._codes, self._folders.numbers(new))
        return replace(all_walks, path=self._codes[all_walks.path], paths=self.names)


def folder(path: str) -> str:
    """The first folder of a path, as a pattern: /products/* of /products/7/size; a page of no folder is its own."""
    first, slash, rest = path[1:].partition("/")
    return f"/{first}/*" if path.startswith("/") and first and slash and rest else path


def through(placed: np.ndarray, names: Sequence[str], shown: int = SHOWN) -> Paths:
    """The levels of what `places` found.

    At each level, ties are in order of paths. What comes into a page equals what goes on from it and what left there.
    """
    sheets, links = [], []
    before: list[str] = []
    came = np.zeros(0, np.int64)
    for level, column in enumerate(placed.T):
        labels, codes = _coded(column, names, shown)
        # A walk that has ended has no further pages.
        present = (came < len(before) - 1) if level else codes < len(labels) - 1
        sheets.append(_sheet(np.bincount(codes[present], minlength=len(labels)), labels))
        if level:
            pairs = np.bincount(
                came[present] * len(labels) + codes[present], minlength=len(before) * len(labels)
            )
            links += [
                (level - 1, before[i // len(labels)], labels[i % len(labels)], int(pairs[i]))
                for i in np.flatnonzero(pairs)
            ]
        before, came = labels, codes
    return Paths(tuple(sheets), pd.DataFrame(links, columns=["level", "source", "target", "count"]))


def _coded(column: np.ndarray, names: Sequence[str], shown: int) -> tuple[list[str], np.ndarray]:
    """The nodes of a level, with OTHER and LEFT at the end, and the node of each walk."""
    counts = np.bincount(column[column >= 0], minlength=len(names))
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda place: (-counts[place], names[place]))[:shown]
    # The index of a walk that has ended is -1, which is the last entry.
    node_of = np.full(len(names) + 1, len(order))
    node_of[order] = np.arange(len(order))
    node_of[-1] = len(order) + 1
    return [*(names[place] for place in order), OTHER, LEFT], node_of[column]


def _sheet(counts: np.ndarray, labels: Sequence[str]) -> pd.DataFrame:
    pairs = [(label, int(count)) for label, count in zip(labels, counts, strict=True) if count]
    return pd.DataFrame(pairs, columns=["path", "count"])


def places(all_walks: Walks, begins: Matching | None = None, *, backward: bool = False) -> np.ndarray:
    """One row per walk, or per walk with a path that `begins`: the indices of its paths from there on, -1 after its
    end. Equal neighbours are one visit of a page."""
    all_walks = _collapsed(all_walks)
    first = all_walks.firsts()
    end = np.append(first[1:], len(all_walks.walk))
    starts, own = first, np.arange(len(first))
    if begins is not None:
        starts = all_walks.firsts(begins(all_walks.path, all_walks.paths))
        own = np.searchsorted(first, starts, "right") - 1
    # The rows of a level lie together in memory.
    table = np.full((len(starts), LEVELS), -1, np.int32, order="F")
    for level in range(LEVELS):
        place = starts - level if backward else starts + level
        inside = place >= first[own] if backward else place < end[own]
        table[inside, level] = all_walks.path[place[inside]]
    return table


def _collapsed(all_walks: Walks) -> Walks:
    """Without the rows whose path is that of the row before in the same walk, and without times, of which levels have
    no use."""
    new = np.ones(len(all_walks.walk), bool)
    new[1:] = (all_walks.walk[1:] != all_walks.walk[:-1]) | (all_walks.path[1:] != all_walks.path[:-1])
    return Walks(
        all_walks.walk[new], all_walks.time[:0], all_walks.path[new], all_walks.paths, all_walks.walks
    )
