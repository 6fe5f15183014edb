"""From payment to alert, by the clocks in the records."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import quantiles
from typing import Any

from examples.fraud_alerts.evaluation import CONFIRMED
from examples.fraud_alerts.rules import location


def kind(alert: dict[str, Any]) -> str:
    """The reference for an alert's latency: a place is confirmed only when the lateness is over."""
    late = alert["status"] == CONFIRMED and alert["rule"] == location.NAME
    return f"{alert['status']}, {location.NAME if late else 'at once'}"


def percentiles(millis: Iterable[float]) -> tuple[float, float, float]:
    """Median, 99th percentile and maximum."""
    values = sorted(millis)
    if len(values) < 2:
        return (values[0],) * 3 if values else (float("nan"),) * 3
    percentile = quantiles(values, n=100, method="inclusive")
    return percentile[49], percentile[98], values[-1]


def table(measured: dict[str, list[float]]) -> list[str]:
    """One line for each kind."""
    lines = [f"{'latency, ms':<32} {'alerts':>8} {'p50':>8} {'p99':>8} {'max':>8}"]
    for name, values in sorted(measured.items()):
        median, high, most = percentiles(values)
        lines.append(f"{name:<32} {len(values):>8} {median:>8.0f} {high:>8.0f} {most:>8.0f}")
    return lines
