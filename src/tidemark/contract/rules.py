"""The rule catalogue: conditions on rows as data, each written once (`tidemark.contract.expression`).

A rejecting rule is evaluated inside the stream, on parsed lines; a line that breaks one is rejected. An
expectation concerns a table's own rows; Great Expectations checks it beside the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tidemark.contract.expression import Expression

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Expectation:
    """A condition `holds` on every row of a table; a row for which it is not true breaks it. `on` names its
    column."""

    name: str
    holds: Expression = field(compare=False)
    on: str
    about: str
    severity: Severity = "critical"


@dataclass(frozen=True)
class RejectingRule(Expectation):
    """A condition `holds` on every parsed line. A line for which it is not true is rejected, unless `unless` is true:
    then another rule rejects it, or there is nothing to check. `expected`: accepted rows are expected to fulfil it,
    too, if they have its columns."""

    unless: Expression | None = field(default=None, compare=False)
    expected: bool = True

    @property
    def accepts(self) -> Expression:
        """The complete condition under which a line is not rejected."""
        return self.holds if self.unless is None else self.holds | self.unless
