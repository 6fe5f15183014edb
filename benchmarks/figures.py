"""A measured figure with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """`name` is the measured quantity with its unit; `values` has one value per run."""

    name: str
    values: Sequence[float]

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def most(self) -> float:
        return max(self.values)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "values": list(self.values), "median": self.median}
