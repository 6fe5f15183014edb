"""Whether a pipeline is well: the reasons why not, in words for whoever is woken up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Pulse:
    """How a flow is doing. Times are seconds ago.

    `active`: its query runs. `lag`: rows waiting, None if unknown. `idle`: since it last committed a batch
    or had nothing to do. `unknown`: since the lag could last be told.
    """

    active: bool
    lag: int | None
    idle: float
    unknown: float


def complaints(state: str, pulses: Mapping[str, Pulse], stale_seconds: float) -> list[str]:
    """Why the pipeline is not well; empty if it is. `state` is that of the process."""
    if state != "running":
        return [f"the pipeline is {state}"]
    found = []
    for flow, pulse in pulses.items():
        if not pulse.active:
            found.append(f"flow {flow} has stopped")
        elif pulse.lag is None and pulse.unknown > stale_seconds:
            found.append(
                f"flow {flow}: how much waits is unknown for {pulse.unknown:.0f} s, its source does not answer"
            )
        elif pulse.lag and pulse.idle > stale_seconds:
            found.append(
                f"flow {flow} has committed nothing for {pulse.idle:.0f} s while {pulse.lag} rows wait"
            )
    return found
