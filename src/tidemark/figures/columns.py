"""Columns of Arrow as arrays of NumPy."""

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
