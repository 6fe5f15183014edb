"""The rule catalogue: conditions on a table's rows, written once as data.

A rule that turns rows away is judged inside the stream, on Arrow arrays. A rule about the table's own rows becomes
a Great Expectations expectation over the table. Some are both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
from pyarrow import acero
from pyarrow import compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.engine.arrays import Arrays

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Rule:
    """A condition that every good row fulfils; a row for which it is not true breaks the rule.

    `on` names the column that the rule is about. `holds` is the condition on the table's own rows, in SQL; "" where
    the table does not keep what the rule speaks of. `judged` is the one on the judged line, an Arrow expression: a
    line that does not fulfil it goes to quarantine.
    """

    name: str
    holds: str
    on: str
    about: str
    severity: Severity = "critical"
    judged: pc.Expression | None = field(default=None, compare=False)

    @property
    def quarantine(self) -> bool:
        """Whether the rule turns rows away inside the stream."""
        return self.judged is not None


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
