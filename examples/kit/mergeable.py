"""Mergeable rows: counts that add and uniques that unite.

Uniques are theta sketches (Apache DataSketches) with 2^20 nominal entries: exact up to 1,048,576
distinct values, beyond that within 0.2% at 95% confidence (error is about 2/sqrt(2^20);
Dasgupta, Lang, Rhodes, Thaler: "A Framework for Estimating Stream Expression Cardinalities", 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import compact_theta_sketch, theta_union, update_theta_sketch
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.contract.table import Change

LG_ENTRIES = 20
# (existing rows that the batch may change, the batch's rows) -> change
Combine = Callable[[pa.Table, pa.Table], Change]


def unique_sketch(values: Column) -> Column:
    """Aggregate: the theta sketch of the distinct non-NULL values."""
    return F.theta_sketch_agg(values, LG_ENTRIES)


def unique_count(sketch: Column) -> Column:
    """Distinct values in a sketch, as a long."""
    return F.theta_sketch_estimate(sketch).cast("long")


def sketch_of(values: Iterable[str]) -> bytes:
    """The same for values in the driver."""
    sketch = update_theta_sketch(LG_ENTRIES)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def unite(sketches: Sequence[bytes]) -> bytes:
    """The union of sketches."""
    if len(sketches) == 1:
        return sketches[0]
    union = theta_union(LG_ENTRIES)
    for sketch in sketches:
        union.update(compact_theta_sketch.deserialize(sketch))
    return bytes(union.get_result().serialize())


def count(sketch: bytes) -> int:
    """Distinct values in a sketch."""
    return int(compact_theta_sketch.deserialize(sketch).get_estimate() + 0.5)


def mergeable(key: Sequence[str], sums: Sequence[str], uniques: dict[str, str]) -> Combine:
    """A function that combines incoming rows with existing rows of a table.

    `sums` are added; `uniques` maps a count column to its sketch column, whose sketches are united. All other
    columns take the incoming value; `updated_at` is added.
    """

    def combine(existing: pa.Table, incoming: pa.Table) -> Change:
        now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
        incoming = incoming.append_column("updated_at", pa.repeat(now, incoming.num_rows))
        if existing.num_rows == 0:
            return Change(incoming)
        before = existing.select([*key, *sums, *uniques.values()])
        renamed = before.rename_columns([c if c in key else f"_old_{c}" for c in before.column_names])
        joined = incoming.join(renamed, list(key), join_type="left outer")
        rows = joined.select(incoming.column_names)
        for name in sums:
            total = pc.add(joined[name], pc.fill_null(joined[f"_old_{name}"], 0))
            rows = rows.set_column(rows.column_names.index(name), name, total)
        for name, sketch in uniques.items():
            united = _unite_pairs(joined[sketch], joined[f"_old_{sketch}"])
            rows = rows.set_column(rows.column_names.index(sketch), sketch, pa.array(united, pa.binary()))
            counts = pa.array(np.fromiter((count(s) for s in united), np.int64, len(united)))
            rows = rows.set_column(rows.column_names.index(name), name, counts)
        return Change(rows)

    return combine


def _unite_pairs(new: pa.ChunkedArray, old: pa.ChunkedArray) -> list[bytes]:
    return [n if o is None else unite([o, n]) for n, o in zip(new.to_pylist(), old.to_pylist(), strict=True)]
