"""Theta sketches of distinct strings, created and united for all rows of a table at once.

`tidemark.figures.sketches` explains and reads them. With 2^20 nominal entries a sketch is exact up to 1,048,576
distinct values, beyond that within 0.2% at 95% confidence.
The bytes are Apache DataSketches' compact form, which `datasketches` and Spark's `theta_*` functions read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.groups import Numbers, encoded
from tidemark.figures.hashes import Hashes, hash_of
from tidemark.figures.sketches import WHOLE, read

LG_ENTRIES = 20
MOST_ENTRIES = 1 << LG_ENTRIES
# With at most this many possible codes per code, setting flags is faster than sorting.
_FLAGS_PER_CODE = 32

# First word of the compact form: words of preamble, version 3, family 3, flags (read-only, compact, ordered; for the
# first: empty), hash of the seed.
_EMPTY, _SINGLE, _EXACT, _ESTIMATING = (
    np.frombuffer(bytes.fromhex(first), np.uint64)[0]
    for first in ("01030300001ecc93", "01030300001acc93", "02030300001acc93", "03030300001acc93")
)


@dataclass(frozen=True)
class Sketches:
    """One sketch per group: distinct `hashes` in ascending order within each group, whose bounds are `offsets`
    (one more than groups), and the thresholds `theta`."""

    hashes: Hashes
    offsets: Numbers
    theta: Hashes

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def groups(self) -> Numbers:
        """The group of each hash."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def counts(self) -> pa.Array:
        """Distinct values of each group (long), an estimate where it has more than MOST_ENTRIES."""
        numbers = np.diff(self.offsets)
        share = self.theta.astype(np.float64) / float(WHOLE)
        return pa.array(np.where(self.theta == WHOLE, numbers, np.rint(numbers / share)).astype(np.int64))

    def limited(self) -> Sketches:
        """The same with at most MOST_ENTRIES hashes per group: the smallest ones, with the next one as threshold."""
        numbers = np.diff(self.offsets)
        if not (numbers > MOST_ENTRIES).any():
            return self
        theta = self.theta.copy()
        for group in np.flatnonzero(numbers > MOST_ENTRIES):
            theta[group] = self.hashes[self.offsets[group] + MOST_ENTRIES]
        return unite(self.groups, self.hashes, theta)

    def to_lists(self) -> pa.Array:
        """The hashes as a list per group."""
        return pa.LargeListArray.from_arrays(pa.array(self.offsets, pa.int64()), pa.array(self.hashes))

    def to_bytes(self) -> pa.Array:
        """Each sketch in the compact form (binary)."""
        numbers = np.diff(self.offsets)
        preamble = np.where(self.theta != WHOLE, 3, np.where(numbers > 1, 2, 1))
        ends = np.cumsum(preamble + numbers)
        start = ends - preamble - numbers
        words = np.zeros(ends[-1] if len(ends) else 0, np.uint64)
        several = preamble > 1
        few = np.where(numbers == 0, _EMPTY, np.where(several, _EXACT, _SINGLE))
        words[start] = np.where(preamble == 3, _ESTIMATING, few)
        words[start[several] + 1] = numbers[several]
        words[start[preamble == 3] + 2] = self.theta[preamble == 3]
        place = np.arange(len(self.hashes)) + np.repeat(start + preamble - self.offsets[:-1], numbers)
        words[place] = self.hashes
        bounds = np.append(start, ends[-1:] if len(ends) else 0) * 8
        buffers = [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(words)]
        large = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)
        return large.cast(pa.binary())


def unite(groups: Numbers, hashes: Hashes, theta: Hashes) -> Sketches:
    """One sketch per group, from hashes that may repeat, below the group's threshold."""
    kept = hashes < theta[groups]
    if not kept.all():
        groups, hashes = groups[kept], hashes[kept]
    # Sketches of a table are in order already, and sorting is most of the work.
    if not _ascending(groups, hashes):
        order = np.lexsort((hashes, groups))
        groups, hashes = groups[order], hashes[order]
        new = np.append(True, (hashes[1:] != hashes[:-1]) | (groups[1:] != groups[:-1]))
        groups, hashes = groups[new], hashes[new]
    offsets = np.searchsorted(groups, np.arange(len(theta) + 1))
    return Sketches(hashes, offsets, theta)


def _ascending(groups: Numbers, hashes: Hashes) -> bool:
    """Whether the groups ascend, and the hashes within each group, none twice."""
    later = (groups[1:] > groups[:-1]) | ((groups[1:] == groups[:-1]) & (hashes[1:] > hashes[:-1]))
    return bool(later.all())


def of_values(groups: Numbers, values: pa.Array, number: int) -> Sketches:
    """One sketch for each of `number` groups, from one string per row; NULL and "" are ignored."""
    coded = encoded(values)
    own = hash_of(coded.dictionary)
    hashes, rank = np.unique(pc.fill_null(own, 0).to_numpy(), return_inverse=True)
    index = coded.indices.to_numpy()
    if own.null_count:
        there = own.is_valid().to_numpy(zero_copy_only=False)[index]
        groups, index = groups[there], index[there]
    pairs = _different(groups * len(hashes) + rank[index], number * len(hashes))
    group, place = np.divmod(pairs, max(1, len(hashes)))
    return unite(group, hashes[place], np.full(number, WHOLE))


def _different(codes: Numbers, end: int) -> Numbers:
    """The different codes in ascending order; all are below `end`."""
    if end <= _FLAGS_PER_CODE * len(codes):
        seen = np.zeros(end, bool)
        seen[codes] = True
        return np.flatnonzero(seen)
    return np.sort(pc.unique(pa.array(codes)).to_numpy())


def of_lists(lists: pa.Array, theta: pa.Array) -> tuple[Numbers, Hashes, Hashes]:
    """Reads the result of `to_lists`, one sketch per row: the row of each hash, the hashes, the thresholds."""
    rows = pc.list_parent_indices(lists).to_numpy()
    return rows, pc.list_flatten(lists).to_numpy(), theta.to_numpy(zero_copy_only=False)


def of_bytes(column: pa.ChunkedArray) -> Sketches:
    """Sketches in the compact form, one per row; NULL is an empty one."""
    hashes, numbers, theta = read(column)
    # Spark may write hashes in any order.
    return unite(np.repeat(np.arange(len(numbers)), numbers), hashes, theta)
