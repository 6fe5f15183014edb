"""Tables as the flows make them of a few requests, without the flows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tidemark.contract.quality_tables import ALERT_RULES, ALERTS, NOTES, REPORTED, SITES
from tidemark.contract.store import Commit
from tidemark.figures.alert_rules import Rule
from tidemark.figures.quantiles import buckets
from tidemark.operate.alerts.evaluator import Evaluator
from tidemark.operate.alerts.record import Alert
from tidemark.operate.moment import Moment, spans
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.settings.sections import MeaningSettings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream.merge import merge_into

TABLE = {table.name: table for table in TABLES}
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
_AGGREGATED = ("gold.traffic", "gold.errors", "gold.latency", "gold.visitor_hours", "silver.sessions")


@dataclass(frozen=True)
class Line:
    """A request `minutes` after noon."""

    minutes: float
    site: str = "shop"
    status: int = 200
    visitor: str = "v"
    bot: bool = False
    path: str = "/"
    country: str = "DE"
    duration_us: int | None = None

    @property
    def time(self) -> datetime:
        return NOON + timedelta(minutes=self.minutes)

    @property
    def latency_bucket(self) -> int | None:
        result: int | None = buckets(pa.array([self.duration_us], pa.int64()), 0.01)[0].as_py()
        return result

    @property
    def views(self) -> bool:
        return not self.bot and self.status < 400

    def row(self, offset: int) -> dict[str, Any]:
        return {
            "topic": "t", "partition": 0, "offset": offset, "site": self.site, "event_time": self.time,
            "ingested_at": datetime.now(UTC), "status": self.status, "visitor_id": self.visitor, "bot": self.bot,
            "path": self.path, "country": self.country, "method": "GET", "bytes": 1, "asset": False,
            "pageview": self.views, "duration_us": self.duration_us, "latency_bucket": self.latency_bucket,
        }  # fmt: skip


@dataclass
class Scene:
    settings: Settings
    store: DeltaRsStore
    lines: list[Line] = field(default_factory=list)
    batches: int = 0

    @classmethod
    def of(cls, settings: Settings, **rules: Rule) -> Scene:
        store = DeltaRsStore(lakehouse.of(settings))
        for name in ("silver.requests", *_AGGREGATED):
            store.ensure(TABLE[name])
        for table in (SITES, ALERTS, ALERT_RULES, NOTES, REPORTED):
            store.ensure(table)
        return cls(replace(settings, alerts=rules), store)

    def add(self, *lines: Line) -> None:
        """One batch of lines."""
        requests = TABLE["silver.requests"]
        rows = [line.row(len(self.lines) + n) for n, line in enumerate(lines)]
        self.lines += lines
        self.batches += 1
        arrow = pa.Table.from_pylist(rows, requests.arrow_schema)
        self.store.append_arrow(requests, arrow)
        for name in _AGGREGATED:
            aggregation = TABLE[name].aggregation(MeaningSettings())  # type: ignore[misc]
            merge_into(
                self.store,
                TABLE[name],
                aggregation,
                aggregation.partial(arrow),
                Commit("scene", self.batches),
            )

    def moment(self, minutes: float | None = None, at: datetime | None = None) -> Moment:
        """The present moment, with the clock at so many minutes after noon (None: only the lines say how late it is),
        at the time `at` (default: now)."""
        sites: dict[str, list[datetime]] = {}
        for line in self.lines:
            sites.setdefault(line.site, []).append(line.time)
        rows = [
            {"site": site, "first_event_time": min(times), "newest_event_time": max(times),
             "reached_event_time": max(times), "newest_kafka_timestamp": max(times)}
            for site, times in sites.items()
        ]  # fmt: skip
        clock = None if minutes is None else NOON + timedelta(minutes=minutes)
        return Moment(at or datetime.now(UTC), spans(rows, clock))

    def evaluate(self, minutes: float | None = None, at: datetime | None = None) -> list[Alert]:
        """Evaluates as of a moment."""
        return Evaluator(self.settings, self.store, TABLE).evaluate(self.moment(minutes, at))

    def alerts(self) -> list[Alert]:
        rows = self.store.read(ALERTS).to_pylist()
        result = [Alert(**row) for row in rows]
        return sorted(result, key=lambda each: (each.rule, each.site, each.window_start))

    def states(self, rule: str | None = None) -> list[tuple[str, float, float | None]]:
        """State, start and end of the alerts, in minutes after noon."""
        return [
            (each.state, _minutes(each.window_start), _minutes(each.ended_at) if each.ended_at else None)
            for each in self.alerts()
            if rule in (None, each.rule)
        ]


def every(step: float, start: float, end: float, **line: Any) -> Iterable[Line]:
    """Lines at equal distances of minutes."""
    count = round((end - start) / step)
    return [Line(start + n * step, **line) for n in range(count)]


def _minutes(time: datetime) -> float:
    return (time - NOON) / timedelta(minutes=1)
