"""Evaluates the rejecting rules over Arrow arrays: which lines are accepted, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import acero
from pyarrow import compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.contract.rules import Rule
from tidemark.engine.arrays import Arrays


def verdict(rules: Sequence[Rule], lines: Arrays) -> dict[str, pa.Array]:
    """`accepted`, whether each line breaks none of the rules that turn lines away, and `reasons`, the names of those
    that it breaks, in the catalogue's order. A condition that is NULL does not hold."""
    judging = {rule.name: rule.judged for rule in rules if rule.judged is not None}
    project = acero.ProjectNodeOptions(list(judging.values()), list(judging))
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.table(dict(lines))))
    held = acero.Declaration("project", project, [source]).to_table(use_threads=False)
    broken = ~np.column_stack([pc.fill_null(column, False).to_numpy() for column in held.columns])
    ends = np.concatenate([[0], np.cumsum(broken.sum(axis=1))])
    reasons = pa.array(list(judging)).take(pa.array(np.nonzero(broken)[1]))
    return {
        "accepted": pa.array(~broken.any(axis=1)),
        "reasons": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), reasons),
    }


def names_of(broken: Mapping[str, Column]) -> Column:
    """The names of the conditions that are true, in their order, as an array of strings."""
    if not broken:
        return F.array().cast("array<string>")
    return F.array_compact(F.array(*(F.when(is_so, F.lit(name)) for name, is_so in broken.items())))
