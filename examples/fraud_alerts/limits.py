"""Limits of the rules, and the allowed lateness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The settings of the rules. `history`: the number of earlier payments from which on a maximum is meaningful.
    `lateness_ms`: how far an event may lag the newest one of either topic and still be evaluated exactly.
    `remember_ms`: how long (event time) a payment's id is known, so that a copy of it is not evaluated again.
    """

    history: int = 3
    together_ms: int = 10_000
    distance_km: float = 100.0
    lateness_ms: int = 5_000
    remember_ms: int = 600_000


LIMITS = Limits()
