"""What counts as suspicious, and how late an event may come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The settings of the rules. `history`: so many earlier payments make a maximum meaningful.
    `lateness_ms`: how far an event may lag the newest one of either topic and still be judged exactly.
    `remember_ms`: how long (event time) a payment's id is known, so that a copy of it is not judged again.
    """

    history: int = 3
    together_ms: int = 10_000
    distance_km: float = 100.0
    lateness_ms: int = 5_000
    remember_ms: int = 600_000


LIMITS = Limits()
