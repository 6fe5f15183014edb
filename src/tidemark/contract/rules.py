"""The rule catalogue: conditions on a table's rows, written once as data.

A rule that turns rows away is judged inside the stream, on Arrow arrays. A rule about the table's own rows becomes
a Great Expectations expectation over the table. Some are both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pyarrow import compute as pc

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
