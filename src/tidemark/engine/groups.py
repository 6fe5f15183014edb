"""Groups rows by a key: the number of each row's group, and sums, minima and maxima per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, plain

Numbers = np.ndarray[Any, Any]
Column: TypeAlias = pa.Array | pa.ChunkedArray
How = Literal["sum", "min", "max", "first"]

_MOST_CODES = 2**62


@dataclass(frozen=True)
class Groups:
    """Groups of rows with the same key: `of` is each row's group, `first` each group's first row."""

    of: Numbers
    first: Numbers

    @classmethod
    def by(cls, columns: Sequence[Column]) -> Groups:
        """Groups by the values of the columns, in order of appearance; NULL is a value."""
        code, number = np.zeros(len(columns[0]), np.int64), 1
        for column in columns:
            own = encoded(column)
            if number * len(own.dictionary) > _MOST_CODES:
                code, number = _renumbered(code)
            code = code * len(own.dictionary) + own.indices.to_numpy()
            number *= len(own.dictionary)
        code, number = _renumbered(code)
        first = np.zeros(number, np.int64)
        first[code[::-1]] = np.arange(len(code))[::-1]
        return cls(code, first)

    def __len__(self) -> int:
        return len(self.first)

    def aggregate(self, columns: Mapping[str, tuple[Column, How]]) -> dict[str, pa.Array]:
        """One value per group and column. NULLs are ignored; the result is NULL if there is no other value. The sum of
        a flag is how often it is true."""
        aggregates: dict[str, pa.Array] = {}
        others: dict[str, tuple[Column, How]] = {}
        for name, (column, how) in columns.items():
            if how == "first":
                aggregates[name] = plain(whole(column).take(pa.array(self.first)))
            elif how == "sum" and pa.types.is_boolean(column.type):
                flags = flags_of(whole(column))
                flagged = self.of if flags.all() else self.of[flags]
                aggregates[name] = pa.array(np.bincount(flagged, minlength=len(self)))
            else:
                others[name] = column, how
        if others:
            given = {"_group": pa.array(self.of), **{name: column for name, (column, _) in others.items()}}
            grouped = pa.table(given).group_by("_group", use_threads=False)
            aggregated = grouped.aggregate([(name, how) for name, (_, how) in others.items()])
            # Groups are numbered by appearance, which is the order of the result.
            aggregates |= {name: whole(aggregated[f"{name}_{how}"]) for name, (_, how) in others.items()}
        return {name: aggregates[name] for name in columns}


def semi_join(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key is among the others."""
    return rows.filter(pa.array(has_key_of(rows, others, key)))


def anti_join(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key is not among the others."""
    return rows.filter(pa.array(~has_key_of(rows, others, key)))


def has_key_of(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> Numbers:
    """For each row, whether its key is among the others."""
    near = np.ones(rows.num_rows, bool)
    # Looking values up leaves few rows of a large table, which is faster than grouping all of them.
    for name in key:
        near &= flags_of(whole(pc.is_in(rows[name], pc.unique(others[name].cast(rows[name].type)))))
    if not near.all():
        has_key = np.zeros(rows.num_rows, bool)
        has_key[near] = has_key_of(rows.filter(pa.array(near)), others, key)
        return has_key
    both = []
    for name in key:
        kind = rows[name].type
        both.append(pa.chunked_array([*_chunks(rows[name]), *_chunks(others[name].cast(kind))], kind))
    groups = Groups.by(both).of
    return np.isin(groups[: rows.num_rows], groups[rows.num_rows :])


def _chunks(column: Column) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def whole(column: Column) -> pa.Array:
    """A column in one chunk."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def encoded(column: Column) -> pa.DictionaryArray:
    """A column as indices into its distinct values, of which NULL is one."""
    array = whole(column)
    if isinstance(array, pa.DictionaryArray):
        if not array.indices.null_count:
            return array
        if not array.dictionary.null_count:
            values = pa.concat_arrays([array.dictionary, pa.nulls(1, array.dictionary.type)])
            missing = len(array.dictionary)
            return pa.DictionaryArray.from_arrays(array.indices.fill_null(missing), values)
        array = array.dictionary_decode()
    return array.dictionary_encode(null_encoding="encode")


def decoded(rows: pa.Table) -> pa.Table:
    """Rows without dictionary-encoded columns."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(place, field.name, rows[field.name].cast(field.type.value_type))
    return rows


def _renumbered(code: Numbers) -> tuple[Numbers, int]:
    """Numbers from 0 on in order of appearance, and how many there are."""
    dictionary = pa.array(code).dictionary_encode()
    return dictionary.indices.to_numpy().astype(np.int64), len(dictionary.dictionary)
