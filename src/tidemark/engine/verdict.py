"""Evaluates the rejecting rules over Arrow arrays: accepted lines, and reasons for the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from tidemark.contract.expression import evaluated
from tidemark.engine.arrays import Arrays


def verdict(conditions: Mapping[str, pc.Expression], lines: Arrays) -> dict[str, pa.Array]:
    """`accepted`: whether all conditions hold for a line. `reasons`: the names of those that do not, in their
    order. A condition that is NULL does not hold."""
    held = evaluated(conditions, pa.table(dict(lines)))
    broken = ~np.column_stack([pc.fill_null(column, False).to_numpy() for column in held.columns])
    ends = np.concatenate([[0], np.cumsum(broken.sum(axis=1))])
    reasons = pa.array(list(conditions)).take(pa.array(np.nonzero(broken)[1]))
    return {
        "accepted": pa.array(~broken.any(axis=1)),
        "reasons": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), reasons),
    }
