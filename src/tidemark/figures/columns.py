"""Columns of Arrow as arrays of NumPy, and positions in these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def whole(column: Any) -> pa.Array:
    """A column in one piece."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def coded(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Text, or numbers of text, as indices into its distinct values."""
    import pyarrow as pa

    if not len(column):
        return np.zeros(0, np.int32), []
    is_coded = pa.types.is_dictionary(column.type)
    codes = whole(column.unify_dictionaries() if is_coded else column.cast(pa.string()).dictionary_encode())
    return codes.indices.to_numpy(), codes.dictionary.to_pylist()


def micros(time: pa.Array) -> np.ndarray:
    """Times in microseconds since the epoch."""
    import pyarrow as pa

    if not len(time):
        return np.zeros(0, np.int64)
    values: np.ndarray = time.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return values


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
