"""Functions over Arrow arrays, applied to Spark frames and Arrow tables, and operations for parsing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Offsets = np.ndarray[Any, np.dtype[np.int32]]
Arrays = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Vectorized:
    """A function `make` that computes the columns `results` (names and types as in Spark DDL) from the columns
    `inputs`, passed by name, some thousand rows at a time.

    The same function runs in the driver and in Spark's Python workers, with the same result. It may return text
    dictionary-encoded, which only `add` keeps so.
    """

    inputs: tuple[str, ...]
    results: str
    make: Callable[[Arrays], Arrays]

    @property
    def names(self) -> list[str]:
        """The results' names."""
        return [part.split()[0] for part in self.results.split(", ")]

    def to_frame(self, frame: DataFrame) -> DataFrame:
        """The frame with the results, which replace columns of the same names."""
        from pyspark.sql import functions as F

        inputs, names, make = self.inputs, self.names, self.make

        @F.arrow_udf(returnType=self.results)  # type: ignore[attr-defined, untyped-decorator, unused-ignore]
        def columns(*arrays: pa.Array) -> pa.Array:
            result = make(dict(zip(inputs, arrays, strict=True)))
            return pa.StructArray.from_arrays([plain(result[name]) for name in names], names=names)

        computed = frame.withColumn("_made", columns(*inputs))
        return computed.withColumns({name: computed[f"_made.{name}"] for name in names}).drop("_made")

    def add(self, table: pa.Table) -> pa.Table:
        """The table with the results, which replace columns of the same names."""
        rows = table.combine_chunks()
        batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return pa.concat_tables([self._added(batch) for batch in batches])

    def _added(self, batch: pa.RecordBatch) -> pa.Table:
        added = self.make({name: batch.column(name) for name in self.inputs})
        kept = {name: batch.column(name) for name in batch.schema.names}
        return pa.table(kept | {name: added[name] for name in self.names})


def plain(column: pa.Array) -> pa.Array:
    """A column whose values are not dictionary-encoded."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def spread(values: pa.Array, index: pa.Array) -> pa.DictionaryArray:
    """Each row's value by its index, NULL without one; dictionary-encoded, with equal values once."""
    coded = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.take(index), coded.dictionary)


def offsets_of(text: pa.Array) -> Offsets:
    """Where each string, or binary value, begins in its buffer of bytes, and where the last one ends."""
    offsets = text.buffers()[1]
    if offsets is None or not len(text):
        return np.zeros(1, np.int32)
    return np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]


def sliced(text: pa.Array, first: Offsets, last: Offsets) -> pa.Array:
    """The bytes of strings, or of binary values, each from its own `first` up to, but not including, its `last`."""
    # As values beside each other in the same bytes, of which each second one is taken.
    bounds = np.repeat(offsets_of(text)[:-1], 2)
    bounds[::2] += first
    bounds[1::2] += last
    number = max(len(bounds) - 1, 0)
    buffers = [None, pa.py_buffer(bounds), text.buffers()[2] or pa.py_buffer(b"")]
    return pa.Array.from_buffers(text.type, number, buffers).take(pa.array(np.arange(0, number, 2)))


def with_beginnings(text: pa.Array, first: Offsets, new: pa.Array) -> pa.Array:
    """Strings, or binary values, with others in place of their bytes in front of `first`."""
    # As two beside each other in the same bytes, the first of which is replaced: the bytes are copied once.
    bounds = np.repeat(offsets_of(text), 2)[: 2 * len(text) + 1]
    bounds[1::2] += first
    buffers = [None, pa.py_buffer(bounds), text.buffers()[2] or pa.py_buffer(b"")]
    parts = pa.Array.from_buffers(text.type, 2 * len(text), buffers)
    replaced = pc.replace_with_mask(parts, pa.array(np.tile([True, False], len(text))), new)
    ends = np.ascontiguousarray(offsets_of(replaced)[::2])
    return pa.Array.from_buffers(text.type, len(text), [None, pa.py_buffer(ends), replaced.buffers()[2]])


def flags_of(condition: pa.Array) -> Flags:
    """A boolean array as a NumPy array, with NULL as false."""
    if condition.null_count:
        condition = pc.fill_null(condition, False)
    return condition.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def matches(text: pa.Array, pattern: str) -> Flags:
    """Which strings match a regular expression; NULL does not."""
    return flags_of(pc.match_substring_regex(text, pattern))


def extracted(text: pa.Array, pattern: str, name: str = "value") -> pa.Array:
    """The group of this name in strings that match a regular expression; NULL for others."""
    return pc.struct_field(pc.extract_regex(text, pattern), name)


def flags_at(rows: np.ndarray[Any, Any], size: int) -> Flags:
    """So many flags, of which those of these numbers are set."""
    flags = np.zeros(size, bool)
    flags[rows] = True
    return flags


def changed(values: pa.Array, which: Flags, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The values with a function of the flagged ones in their places; the same array if none is flagged."""
    if not which.any():
        return values
    mask = pa.array(which)
    return pc.replace_with_mask(values, mask, change(values.filter(mask)))


def where(flags: Flags, chosen: pa.Array, other: Any) -> pa.Array:
    """The flagged values, and `other` elsewhere: an array, or one value for all (None for NULL)."""
    if not isinstance(other, pa.Array):
        if flags.all():
            return chosen
        other = pa.scalar(other, chosen.type)
    return pc.if_else(pa.array(flags), chosen, other)


@dataclass(frozen=True)
class Parts:
    """The parts of split strings: each row has `count` parts, the first of them at `start` in `flat`."""

    flat: pa.Array
    start: np.ndarray[Any, Any]
    count: np.ndarray[Any, Any]
    _taken: dict[int, pa.Array] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(text: pa.Array, separator: str, most: int | None = None, *, last: bool = False) -> Parts:
        """Splits at the first `most` separators, or at the last ones; NULL has no parts."""
        split = pc.split_pattern(text, separator, max_splits=most, reverse=last)
        offsets = split.offsets.to_numpy()
        return Parts(split.values, offsets[:-1], np.diff(offsets))

    def at(self, index: int | np.ndarray[Any, Any]) -> pa.Array:
        """Each row's part of that index; NULL if the row has fewer parts."""
        if isinstance(index, int):  # readers ask for the same part several times
            if index not in self._taken:
                self._taken[index] = self._at(index)
            return self._taken[index]
        return self._at(index)

    def _at(self, index: int | np.ndarray[Any, Any]) -> pa.Array:
        missing = (index >= self.count) | np.less(index, 0)
        return self.flat.take(pa.array(np.where(missing, 0, self.start + index), mask=missing))

    def take(self, rows: np.ndarray[Any, Any]) -> Parts:
        """The parts of the rows of these numbers, one row's parts behind another's."""
        count = self.count[rows]
        ends = np.concatenate([[0], np.cumsum(count)])
        index = np.repeat(self.start[rows] - ends[:-1], count) + np.arange(ends[-1])
        return Parts(self.flat.take(pa.array(index)), ends[:-1], count)

    def joined(self, separator: str) -> pa.Array:
        """Each row's parts as one string, with separators in between; empty for a row without parts."""
        packed = self.take(np.arange(len(self.count)))
        ends = pa.array(np.append(packed.start, len(packed.flat)), pa.int32())
        return pc.binary_join(pa.ListArray.from_arrays(ends, packed.flat), separator)
