"""Maps from whole numbers, such as buckets or minutes, to counts of rows: one per row of a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemark.engine.groups import Numbers


def of_rows(groups: Numbers, numbers: pa.Array, number: int) -> pa.MapArray:
    """One map for each of `number` groups: how many of its rows have each of the `numbers` (int); NULL is ignored."""
    there = numbers.is_valid().to_numpy(zero_copy_only=False)
    keys = numbers.drop_null().to_numpy()
    return _summed(groups[there], keys, np.ones(len(keys), np.int64), number)


def merged(groups: Numbers, maps: pa.MapArray, number: int) -> pa.MapArray:
    """One map for each of `number` groups, of the maps of its rows, whose counts are added per key."""
    entries = np.diff(maps.offsets.to_numpy())
    first, last = maps.offsets[0].as_py(), maps.offsets[len(maps)].as_py()
    keys, counts = (part.slice(first, last - first).to_numpy() for part in (maps.keys, maps.items))
    return _summed(np.repeat(groups, entries), keys, counts, number)


def _summed(groups: Numbers, keys: Numbers, counts: Numbers, number: int) -> pa.MapArray:
    """Maps in order of their keys, so that equal maps are equal bytes."""
    least = int(keys.min()) if len(keys) else 0
    width = int(keys.max()) - least + 1 if len(keys) else 1
    code = groups * width + (keys.astype(np.int64) - least)
    order = np.argsort(code)
    code = code[order]
    first = np.flatnonzero(np.append(True, code[1:] != code[:-1])[: len(code)])
    group, key = np.divmod(code[first], width)
    offsets = np.searchsorted(group, np.arange(number + 1)).astype(np.int32)
    items = np.add.reduceat(counts[order], first) if len(first) else counts
    return pa.MapArray.from_arrays(offsets, pa.array((key + least).astype(np.int32)), pa.array(items))
