"""Health of a pipeline: the reasons of a failure as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Pulse:
    """State of a flow. Times are seconds since an event.

    `active`: its query runs. `lag`: rows waiting, None if unknown. `idle`: since it last committed a batch
    or had no rows waiting. `unknown`: since the lag was last known.
    """

    active: bool
    lag: int | None
    idle: float
    unknown: float


def complaints(state: str, pulses: Mapping[str, Pulse], stale_seconds: float) -> list[str]:
    """Reasons why the pipeline fails; empty if it is healthy. `state` is that of the process."""
    if state != "running":
        return [f"the pipeline is {state}"]
    texts = []
    for flow, pulse in pulses.items():
        if not pulse.active:
            texts.append(f"flow {flow} has stopped")
        elif pulse.lag is None and pulse.unknown > stale_seconds:
            texts.append(
                f"flow {flow}: how much waits is unknown for {pulse.unknown:.0f} s, its source does not answer"
            )
        elif pulse.lag and pulse.idle > stale_seconds:
            texts.append(
                f"flow {flow} has committed nothing for {pulse.idle:.0f} s while {pulse.lag} rows wait"
            )
    return texts
