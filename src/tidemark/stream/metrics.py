"""Prometheus metrics of a pipeline. docs/operations.md lists every metric."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidemark import __version__

# From a small live batch to a long one during a catch-up.
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_OUTCOMES = ("accepted", "rejected", "duplicate")
_SEVERITIES = ("critical", "warning", "info")
# Tasks beside the flows.
TASKS = ("quality", "upkeep", "alerts", "reports", "mails")

# Per flow: name of the metric, key of the flow's summary (see `Progress.summaries`), description.
_GAUGES = (
    ("active", "active", "Whether the flow's query runs."),
    ("rows_per_second", "rows_per_second", "Rows per second over the last 10 s."),
    ("lag_rows", "lag", "Rows that wait to be read."),
    ("freshness_seconds", "freshness_seconds", "Age of the newest row when committed; while rows wait, now."),
    ("newest_event_timestamp_seconds", "newest_event_time", "Newest event time that the flow has seen."),
    ("last_batch_timestamp_seconds", "recorded_at", "When the flow last committed a batch."),
    ("state_rows", "state_rows", "Rows of state that Spark keeps for the flow; absent for one without."),
)

Summaries = Callable[[], Mapping[str, Mapping[str, Any]]]
Sizes = Callable[[], Mapping[str, tuple[int, int]]]


class Metrics:
    """The counters of this process and, after a call of `observe`, gauges that are computed at each scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for process in (ProcessCollector, PlatformCollector, GCCollector):
            process(registry=self.registry)
        Info("tidemark", "Version of Tidemark.", registry=self.registry).info({"version": __version__})
        self._rows = self._counter("flow_rows", "Rows read by the flow.", "flow")
        self._seconds = Histogram(
            "tidemark_flow_batch_duration_seconds",
            "Time taken by a batch.",
            ("flow",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._lines = self._counter("lines", "Lines from Kafka by what became of them.", "outcome")
        self._late = self._counter("late_lines", "Accepted lines that count as late.")
        for outcome in _OUTCOMES:  # a series that exists from the start has a rate from its first increase
            self._lines.labels(outcome)
        self._failed = Gauge(
            "tidemark_failed_expectations",
            "Quality expectations whose last check failed.",
            ("severity",),
            registry=self.registry,
        )
        self._failing: dict[tuple[str, ...], str] = {}
        self.checked([])
        self._failed_runs = self._counter("failed_runs", "Runs beside the flows that have failed.", "task")
        for task in TASKS:
            self._failed_runs.labels(task)
        # By task, why its last run failed; successful tasks are missing.
        self.troubles: dict[str, str] = {}

    def observe(self, summaries: Summaries, sizes: Sizes, healthy: Callable[[], bool]) -> None:
        """Adds the gauges: `summaries` returns the values of `_GAUGES` per flow, `sizes` rows and bytes per table,
        `healthy` whether `/health` answers 200."""
        self.registry.register(_Gauges(summaries, sizes, healthy))

    def checked(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Records a quality run's results, rows of quality.results. Other tables keep their values."""
        for result in results:
            expectation = (result["table"], result["expectation"], str(result["column"]))
            if result["success"]:
                self._failing.pop(expectation, None)
            else:
                self._failing[expectation] = result["severity"]
        counts = Tally(self._failing.values())
        for severity in _SEVERITIES:
            self._failed.labels(severity).set(counts[severity])

    def ran(self, task: str, trouble: str) -> None:
        """Records the end of a run of one of `TASKS`, with its error, empty for success."""
        if trouble:
            self._failed_runs.labels(task).inc()
            self.troubles[task] = trouble
        else:
            self.troubles.pop(task, None)

    def batch_done(self, flow: str, seconds: float, facts: Mapping[str, Any]) -> None:
        """Counts a batch: `rows`, and of counted lines `accepted`, `rejected`, `duplicate`, `late`."""
        self._rows.labels(flow).inc(facts["rows"])
        self._seconds.labels(flow).observe(seconds)
        for outcome in _OUTCOMES:
            self._lines.labels(outcome).inc(facts.get(outcome, 0))
        self._late.inc(facts.get("late", 0))

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"tidemark_{name}", about, labels, registry=self.registry)


class _Gauges(Collector):
    def __init__(self, summaries: Summaries, sizes: Sizes, healthy: Callable[[], bool]) -> None:
        self._summaries = summaries
        self._sizes = sizes
        self._healthy = healthy
        self._started = time.time()

    def describe(self) -> Iterable[Metric]:
        return []  # called on registration, before anything is known

    def collect(self) -> Iterable[Metric]:
        yield _gauge("healthy", "Whether /health answers 200.", value=float(self._healthy()))
        yield _gauge("start_timestamp_seconds", "When the pipeline started.", value=self._started)
        flows = self._summaries()
        for name, key, about in _GAUGES:
            gauge = _gauge(f"flow_{name}", about, labels=["flow"])
            for flow, summary in flows.items():
                if summary.get(key) is not None:
                    gauge.add_metric([flow], float(summary[key]))
            yield gauge
        sizes = self._sizes()
        for number, unit in enumerate(("rows", "bytes")):
            gauge = _gauge(f"table_{unit}", f"{unit.capitalize()} of the newest version.", labels=["table"])
            for table, size in sizes.items():
                gauge.add_metric([table], float(size[number]))
            yield gauge


def _gauge(
    name: str, about: str, *, value: float | None = None, labels: list[str] | None = None
) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidemark_{name}", about, value=value, labels=labels)
