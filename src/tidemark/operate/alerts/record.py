"""Alerts as rows of quality.alerts: what is raised, ends or is withdrawn, and what of it is to be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tidemark.contract.quality_tables import ALERTS
from tidemark.figures.alert_rules import Rule, time_of, window_of
from tidemark.operate.alerts import evaluation
from tidemark.operate.alerts.series import Series

# Alerts of windows that ended earlier are recorded, not delivered.
DELIVERED_WITHIN = timedelta(days=1)
WRITER = "alerts"
FIRING, ENDED, WITHDRAWN = "firing", "ended", "withdrawn"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Alert:
    """A row of quality.alerts."""

    rule: str
    site: str
    window_start: datetime
    window_end: datetime
    state: str
    ended_at: datetime | None
    metric: str
    value: float
    bound: float
    definition: str
    about: str
    late: bool
    fired_at: datetime
    withdrawn_at: datetime | None = None
    due: bool = False
    delivered: str | None = None
    delivered_at: datetime | None = None
    delivered_to: str | None = None
    failure: str | None = None
    updated_at: datetime = _EPOCH

    @property
    def stands(self) -> bool:
        return self.state != WITHDRAWN


def edges_of(alerts: Sequence[Alert], width: int) -> list[int]:
    """The edges (`evaluation.edges`) of a site's alerts by a rule with windows of `width` seconds."""
    edges: list[int] = []
    for alert in sorted((each for each in alerts if each.stands), key=lambda each: each.window_start):
        edges.append(window_of(alert.window_start, width))
        if alert.ended_at is not None:
            edges.append(window_of(alert.ended_at, width) - 1)
    return edges


def changed_alerts(
    name: str, rule: Rule, site: str, series: Series, known: Sequence[Alert], now: datetime
) -> list[Alert]:
    """The rows that an evaluation changes. `known`: the site's rows by this rule, `now`: the time of the evaluation."""
    width = timedelta(seconds=rule.seconds)
    starting = {
        window_of(each.window_start, rule.seconds): each
        for each in known
        if each.window_end - each.window_start == width  # the rule may have had other windows
    }
    current = evaluation.episodes(series.edges)
    kept = [each for window, each in starting.items() if window in current]
    gone = [each for each in known if each.stands and each not in kept]
    changed = []
    for window, end in current.items():
        old = starting.get(window)
        value, bound = series.seen.get(window, (old.value, old.bound) if old else (0.0, 0.0))
        facts: dict[str, Any] = {
            "state": FIRING if end is None else ENDED,
            "ended_at": None if end is None else time_of(end + 1, rule.seconds),
            "metric": rule.metric,
            "value": value,
            "bound": bound,
            "definition": rule.definition,
            "about": str(rule),
        }
        if old is None or not old.stands:
            start, stop = time_of(window, rule.seconds), time_of(window + 1, rule.seconds)
            late = window < series.known
            new = Alert(name, site, start, stop, late=late, fired_at=now, **facts)
            # An alert that a late line moves is not delivered again, unless its end may have been delivered.
            moved = next((each for each in gone if each.delivered and _overlap(each, new)), old)
            if moved is not None:
                new = replace(
                    new,
                    delivered=moved.delivered,
                    delivered_at=moved.delivered_at,
                    delivered_to=moved.delivered_to,
                )
                gone = [replace(each, delivered=None, due=False) if each is moved else each for each in gone]
            unsure = moved is not None and moved.due
            new = replace(new, due=(unsure or new.state != new.delivered) and _recent(new.window_end, now))
        else:
            new = replace(old, **facts)
            delivered = new.due or new.delivered is not None
            if new.state != old.state:
                due = (old.due or new.state != new.delivered) and _recent(new.ended_at or new.window_end, now)
                new = replace(new, due=delivered and due)
        if new != old:
            changed.append(replace(new, updated_at=now))
    written = {each.window_start for each in changed}
    for each in (each for each in gone if each.window_start not in written):
        due = each.delivered is not None and _recent(each.window_end, now)
        changed.append(replace(each, state=WITHDRAWN, withdrawn_at=now, due=due, updated_at=now))
    return changed


def rows_of(alerts: Sequence[Alert]) -> pa.Table:
    """Alerts as rows of the table."""
    return pa.Table.from_pylist([asdict(alert) for alert in alerts], ALERTS.arrow_schema)


def _recent(time: datetime, now: datetime) -> bool:
    return time > now - DELIVERED_WITHIN


def _overlap(old: Alert, new: Alert) -> bool:
    return (new.ended_at is None or old.window_start < new.ended_at) and (
        old.ended_at is None or new.window_start < old.ended_at
    )
