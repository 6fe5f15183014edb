"""The rule catalogue: conditions on a table's rows, written once as data.

The same rule becomes a reason that sends a row to quarantine inside the stream, and a Great
Expectations expectation over the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Rule:
    """`holds` is a SQL condition that every good row fulfils; a row for which it is not true breaks the rule.

    `on` names the column that the rule is about. A rule with `quarantine` turns a row away inside
    the stream. `in_table` says whether `holds` can also be checked on the table's own rows; text is the
    condition to check there instead, where `holds` speaks of columns that the table does not keep.
    """

    name: str
    holds: str
    on: str
    about: str
    severity: Severity = "critical"
    quarantine: bool = False
    in_table: bool | str = True

    @property
    def holds_in_table(self) -> str | None:
        """The condition on the table's own rows; None where there is none."""
        if isinstance(self.in_table, str):
            return self.in_table
        return self.holds if self.in_table else None


def accepted(rules: Sequence[Rule]) -> Column:
    """Whether a row breaks none of the quarantine rules."""
    return reduce(Column.__and__, [_holds(rule) for rule in rules if rule.quarantine])


def reasons(rules: Sequence[Rule]) -> Column:
    """Names of the quarantine rules that a row breaks, in the catalogue's order; empty for a good row.

    A condition that is NULL is one that does not hold. Takes the column `accepted`, which spares good
    rows, nearly all, the look for reasons.
    """
    broken = {rule.name: ~_holds(rule) for rule in rules if rule.quarantine}
    return F.when(F.col("accepted"), names_of({})).otherwise(names_of(broken))


def names_of(broken: Mapping[str, Column]) -> Column:
    """The names of the conditions that are true, in their order, as an array of strings."""
    if not broken:
        return F.array().cast("array<string>")
    return F.array_compact(F.array(*(F.when(is_so, F.lit(name)) for name, is_so in broken.items())))


def _holds(rule: Rule) -> Column:
    return F.coalesce(F.expr(rule.holds), F.lit(False))
