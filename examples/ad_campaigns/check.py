"""Recounts the expected counts event by event without Spark, prints results, and measures latencies."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from examples.ad_campaigns.campaigns import ads
from examples.ad_campaigns.generator import events
from examples.ad_campaigns.sinks import COUNTS, WINDOW_SECONDS, Count, ToRedis, counts_in_delta
from examples.kit.load import Event, Load
from examples.kit.results import Results, differences

Counts = Mapping[tuple[str, int], Count]
_BOUNDS_MS = (100, 250, 500, 1_000, 2_000, 5_000, 10_000, float("inf"))


def truth(sent: Iterable[Event]) -> Counter[tuple[str, int]]:
    """Views by campaign and start of the window in milliseconds."""
    campaigns, size = ads(), WINDOW_SECONDS * 1000
    views: Counter[tuple[str, int]] = Counter()
    for event in sent:
        if event.reason:
            continue
        fields = json.loads(event.value)
        if fields["event_type"] == "view":
            views[campaigns[fields["ad_id"]], int(fields["event_time"]) // size * size] += 1
    return views


def latencies(counts: Counts) -> dict[tuple[str, int], int]:
    """The benchmark's latency of each finished window in milliseconds: from its end, by the clock of Kafka, to the
    update that completed it. The newest window is excluded because it may continue, and windows that a late event
    changed are excluded because they show the lateness of the event."""
    if not counts:
        return {}
    clock = min(count.clock for count in counts.values())
    newest = max(start for _, start in counts)
    size = WINDOW_SECONDS * 1000
    measured = {
        (campaign, start): count.updated - (start + size + clock)
        for (campaign, start), count in counts.items()
        if start < newest
    }
    return {window: latency for window, latency in measured.items() if latency >= 0}


def histogram(latency_ms: list[int], phase: str = "steady") -> Iterator[str]:
    """Histogram of the time from a window's end to its completion, one line per bin."""
    if not latency_ms:
        return
    p50, p95, p99 = np.percentile(latency_ms, [50, 95, 99])
    yield f"{phase}, latency of {len(latency_ms)} windows: p50 {p50:,.0f} ms, p95 {p95:,.0f} ms, p99 {p99:,.0f} ms"
    low = 0.0
    for high in _BOUNDS_MS:
        number = sum(low <= latency < high for latency in latency_ms)
        what = f"under {high:,.0f} ms" if high < float("inf") else "longer"
        yield f"  {what:>15}  {number:6}  {'#' * round(50 * number / len(latency_ms))}"
        low = high


@dataclass
class View:
    """Output and recount of the results in the sink."""

    redis: ToRedis | None
    say: Callable[[str], None] = print
    _shown: dict[int, int] = field(default_factory=dict)

    def counts(self, results: Results) -> Counts:
        if self.redis is not None:
            return self.redis.counts(set(ads().values()))
        return counts_in_delta(results.table(COUNTS))

    def show(self, results: Results) -> Iterator[str]:
        """A line for each window that has grown."""
        views: Counter[int] = Counter()
        campaigns: Counter[int] = Counter()
        last: dict[int, int] = {}
        counts = self.counts(results)
        for (_, start), count in counts.items():
            views[start] += count.views
            campaigns[start] += 1
        for (_, start), latency in latencies(counts).items():
            last[start] = max(latency, last.get(start, 0))
        for start in sorted(views):
            if views[start] != self._shown.get(start):
                seen = f"window of second {start // 1000}: {views[start]:,} views of {campaigns[start]} campaigns"
                yield seen + (f", the last {last[start]:,} ms after its end" if start in last else "")
        self._shown = dict(views)

    def check(self, load: Load, results: Results) -> Iterator[str]:
        """Differences from the expected counts; prints the latencies, those of windows that had to wait for the killed
        job apart."""
        counts = self.counts(results)
        phases: defaultdict[str, list[int]] = defaultdict(list)
        for window, latency in latencies(counts).items():
            updated = counts[window].updated
            phases[results.phase(updated - latency, updated)].append(latency)
        for phase in sorted(phases, reverse=True):
            for line in histogram(phases[phase], phase):
                self.say(line)
        views = {window: count.views for window, count in counts.items()}
        yield from differences("views", truth(events(load)), views)
