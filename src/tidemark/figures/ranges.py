"""Positions of the elements of many ranges."""

from __future__ import annotations

import numpy as np


def ranges(first: np.ndarray, lengths: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The positions of ranges that begin at `first` and have `lengths`, range by range in the given order."""
    first, lengths = first[order], lengths[order]
    ends = np.cumsum(lengths)
    number = int(ends[-1]) if len(ends) else 0
    # Half the bytes of positions, as long as these suffice.
    kind = np.int32 if (first + lengths).max(initial=0) < 2**31 and number < 2**31 else np.int64
    positions: np.ndarray = np.arange(number, dtype=kind)
    positions += np.repeat((first - (ends - lengths)).astype(kind), lengths)
    return positions
