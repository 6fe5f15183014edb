"""The hash by which a theta sketch knows a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Hashes = np.ndarray[Any, np.dtype[np.uint64]]

_SEED = np.uint64(9001)
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


def hash_of(values: pa.Array) -> pa.Array:
    """The hash (uint64) of a string in a theta sketch: NULL for NULL and "".

    MurmurHash3 x64 128 of the UTF-8 bytes (Austin Appleby, public domain), DataSketches' seed, the first half
    without its lowest bit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    column = column.cast(pa.large_binary())
    sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    start = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
    hashes = np.zeros(len(sizes), np.uint64)
    for size in np.unique(sizes[sizes > 0]):
        rows = np.flatnonzero(sizes == size)
        padded = np.zeros((len(rows), -(-int(size) // 16) * 16), np.uint8)
        padded[:, :size] = data[start[rows][:, None] + np.arange(size)]
        hashes[rows] = _murmur(padded.view(np.uint64), int(size)) >> np.uint64(1)
    return pa.array(hashes, mask=sizes == 0)


def _murmur(words: Hashes, size: int) -> Hashes:
    """The first half of the hash of rows of `size` bytes, padded with zeros to whole blocks of two words."""
    one = np.full(len(words), _SEED)
    two = one.copy()
    for block in range(0, words.shape[1], 2):
        whole = (block + 2) * 8 <= size
        one ^= _rotated(words[:, block] * _C1, 31) * _C2
        if whole:
            one = (_rotated(one, 27) + two) * np.uint64(5) + np.uint64(0x52DCE729)
        two ^= _rotated(words[:, block + 1] * _C2, 33) * _C1
        if whole:
            two = (_rotated(two, 31) + one) * np.uint64(5) + np.uint64(0x38495AB5)
    one ^= np.uint64(size)
    two ^= np.uint64(size)
    one += two
    two += one
    return _mixed(one) + _mixed(two)


def _rotated(words: Hashes, by: int) -> Hashes:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _mixed(words: Hashes) -> Hashes:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
