"""Counts of rows that change: corrected by the rows that are gone and those that are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.aggregation import Difference, Step
from tidemark.contract.table import Change
from tidemark.engine import sketches
from tidemark.engine.counts import WindowedCounts
from tidemark.engine.groups import Groups, Numbers, anti_join, semi_join, whole
from tidemark.figures.sketches import WHOLE


@dataclass(frozen=True)
class RevisedCounts(WindowedCounts):
    """Sums and distinct visitors of rows that may change or disappear. The sum `rows` counts the rows: where it becomes
    0, the key disappears.

    Sums are corrected by the difference. A sketch can gain visitors; where it loses one, its row is recomputed.
    """

    rows: str = "rows"

    def __post_init__(self) -> None:
        if self.rows not in self.sums or self.bounds or self.histograms:
            raise ValueError(f"counts that are revised are sums, one of them {self.rows}")

    def difference(self, steps: Sequence[Step]) -> Difference:
        parts = [part for step in steps for part in (step.removed, step.added)]
        both = pa.concat_tables(parts)
        # The order of the parts: those with an odd number are added.
        number = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        groups = Groups.by([both[name] for name in self.key])
        values = {name: pc.multiply(both[name], pa.array(number % 2 * 2 - 1)) for name in self.sums}
        gained, loses = self._moved(both, number, groups)
        rows = self._rows(groups, {name: both[name] for name in self.key}, values, {}, gained)
        gains = np.diff(gained.offsets) > 0 if gained else np.zeros(len(groups), bool)
        sums = [pc.not_equal(rows[name], 0).to_numpy() for name in self.sums]
        differs = reduce(np.logical_or, sums, gains | loses)
        lost = rows.select(list(self.key)).filter(pa.array(loses))
        return Difference(rows.filter(pa.array(differs)), lost)

    def revise(self, existing: pa.Table, difference: Difference, recomputed: pa.Table) -> Change:
        key, lost = list(self.key), difference.lost
        partials = pa.concat_tables(
            [
                anti_join(difference.changed, lost, key),
                semi_join(recomputed, lost, key).cast(difference.changed.schema),
            ]
        )
        rows = self.combine(anti_join(existing, lost, key), partials).rows
        none = pc.equal(rows[self.rows], 0)
        left, gone = rows.filter(pc.invert(none)), rows.filter(none).select(key)
        return Change(left, pa.concat_tables([gone, anti_join(lost, left, key).cast(gone.schema)]))

    def _moved(
        self, both: pa.Table, number: Numbers, groups: Groups
    ) -> tuple[sketches.Sketches | None, Numbers]:
        """The visitors that each group gains, and whether it may lose any.

        A visitor is in the group before the steps if the first part that names it removes rows, and after the steps if
        the last one adds rows. Otherwise other rows, in no step, may still have it.
        """
        loses = np.zeros(len(groups), bool)
        if self.visitors == "none":
            return None, loses
        row, hashes, _ = sketches.of_lists(whole(both["hashes"]), whole(both["theta"]))
        group, part = groups.of[row], number[row]
        order = np.lexsort((part, hashes, group))
        group, hashes, part = group[order], hashes[order], part[order]
        new = np.ones(len(group), bool)
        new[1:] = (group[1:] != group[:-1]) | (hashes[1:] != hashes[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(group))[: len(first)] - 1
        loses[group[last[part[last] % 2 == 0]]] = True
        gained = first[(part[first] % 2 == 1) & (part[last] % 2 == 1)]
        theta = np.full(len(groups), WHOLE)
        return sketches.unite(group[gained], hashes[gained], theta), loses
