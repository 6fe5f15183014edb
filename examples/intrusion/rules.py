"""Definitions of intrusions in an access log: patterns as data, and two pure rules over windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from examples.kit.patterns import pattern_of

WINDOW_SECONDS = 300

_LOGIN = (["method", "==", "POST"], ["path", "==", "/login"])
_FAILED = [*_LOGIN, ["status", "in", [401, 403]]]
_SUCCEEDED = [*_LOGIN, ["status", "in", [200, 302, 303]]]

# Sequences of logins from one address.
PATTERNS = (
    pattern_of(
        {
            "name": "break-in",
            "within_seconds": 300,
            "steps": [
                {"name": "failed", "where": _FAILED, "times": 5},
                {"name": "succeeded", "where": _SUCCEEDED},
            ],
        }
    ),
    pattern_of(
        {
            "name": "password guessing",
            "within_seconds": 300,
            "steps": [{"name": "failed", "where": _FAILED, "times": 10}],
        }
    ),
)


@dataclass(frozen=True)
class Limits:
    """Limits above which an address's traffic in a window of five minutes is an alert.

    `scan_paths`: number of distinct paths that were not found. A surge is at least `surge_requests` and more than
    `surge_factor` times the mean of the address's windows among the `history` before, of which there must
    be `least_history`.
    """

    scan_paths: int = 20
    surge_requests: int = 60
    surge_factor: float = 5.0
    history: int = 12
    least_history: int = 3


class Activity(NamedTuple):
    """An address in a window: requests, and distinct paths that were not found."""

    requests: int
    not_found: int


class Alert(NamedTuple):
    """An alert: `start` is the window's start in epoch seconds, `usual` the expected number."""

    rule: str
    client_ip: str
    start: int
    value: int
    usual: float


def alerts(
    client_ip: str, windows: Mapping[int, Activity], starts: Iterable[int], limits: Limits
) -> list[Alert]:
    """The alerts of an address in the windows that begin at `starts`, from all relevant windows of the address."""
    raised = []
    for start in starts:
        now = windows.get(start)
        if now is None:
            continue
        if now.not_found >= limits.scan_paths:
            raised.append(Alert("scan", client_ip, start, now.not_found, 0.0))
        before = range(start - limits.history * WINDOW_SECONDS, start, WINDOW_SECONDS)
        past = [windows[time].requests for time in before if time in windows]
        if len(past) < limits.least_history or now.requests < limits.surge_requests:
            continue
        usual = sum(past) / len(past)
        if now.requests > limits.surge_factor * usual:
            raised.append(Alert("surge", client_ip, start, now.requests, round(usual, 6)))
    return raised


def affected(starts: Iterable[int], limits: Limits) -> list[int]:
    """The windows whose alerts depend on any of these."""
    reach = range(limits.history + 1)
    return sorted({start + n * WINDOW_SECONDS for start in set(starts) for n in reach})
