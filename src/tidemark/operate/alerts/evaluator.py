"""Evaluates every alert rule, and keeps quality.alerts and quality.alert_rules.

Which alerts fire is a function of the tables, so a window can be evaluated again at any time. Each evaluation covers
the windows that have ended since the last one and those whose lines have changed. A rebuild or a change of the rule
evaluates all windows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.quality_tables import ALERT_RULES, ALERTS
from tidemark.contract.store import Commit, Condition, Store, Where
from tidemark.contract.table import Change, Table
from tidemark.engine.groups import whole
from tidemark.figures.alert_rules import Rule, time_of, window_of
from tidemark.figures.rows import Rows
from tidemark.figures.rules import of_lines
from tidemark.figures.unions import UnionCache
from tidemark.operate.alerts.record import (
    FIRING,
    WRITER,
    Alert,
    changed_alerts,
    edges_of,
    rows_of,
)
from tidemark.operate.alerts.series import Range, Series, affected, evaluate, runs
from tidemark.operate.moment import Moment
from tidemark.operate.retention import ceil
from tidemark.settings import Settings
from tidemark.stream import swap
from tidemark.stream.lock import appending

_TRAFFIC, _REQUESTS = "gold.traffic", "silver.requests"

Row = dict[str, Any]


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the rules of the settings. `tables`: gold.traffic, by name. `kept`: the time from which on a table has
    its rows (None: all). Windows before cannot be evaluated any more, and their alerts stay as they are."""

    settings: Settings
    store: Store
    tables: Mapping[str, Table]
    kept: Callable[[str], datetime | None] = lambda table: None

    def evaluate(self, moment: Moment) -> list[Alert]:
        """Evaluates what the moment allows, writes both tables, and returns the alerts that changed.

        Raises TableError for a table that cannot be read or written.
        """
        standing = {(row["rule"], row["site"]): row for row in self.store.read(ALERT_RULES).to_pylist()}
        swaps = self.store.committed(self.tables[_TRAFFIC], swap.WRITER)
        changes = self._changes([row for row in standing.values() if row["swap"] == swaps])
        # Each evaluation asks for other windows, so no union is kept.
        rows = Rows(self.store.reader, UnionCache.forgetful())
        changed: list[Alert] = []
        rules: list[Row] = []
        for name, rule in self.settings.alerts.items():
            kept = self.kept(_REQUESTS if of_lines(rule) else _TRAFFIC)
            series, todo = _planned(rule, moment, _of_rule(standing, name, rule, swaps), changes, kept)
            alerts = self._alerts(name, rule, series, todo, kept)
            for site, one in series.items():
                if one.known > one.start:
                    one.edges = edges_of(alerts[site], rule.seconds)
            evaluate(rows, rule, series, todo)
            for site, one in series.items():
                changed += changed_alerts(name, rule, site, one, alerts[site], moment.time)
                rules.append(_rule_row(name, rule, site, one, moment.time, swaps))
        self._write(changed, rules, standing)
        return changed

    def _alerts(
        self,
        name: str,
        rule: Rule,
        series: Mapping[str, Series],
        todo: Mapping[str, Sequence[Range]],
        kept: datetime | None,
    ) -> dict[str, list[Alert]]:
        """The rule's alerts by site, except those that had ended before the first window to evaluate, or `kept`."""
        alerts: dict[str, list[Alert]] = defaultdict(list)
        where: Where = [[("rule", "=", name)]]
        if all(one.known > one.start for one in series.values()):
            first = time_of(
                min((part[0] for parts in todo.values() for part in parts), default=0), rule.seconds
            )
            since: list[Condition] = [
                ("window_start", ">=", first),
                ("ended_at", ">", first),
                ("state", "=", FIRING),
            ]
            where = [[("rule", "=", name), each] for each in since]
        for row in self.store.read(ALERTS, where).to_pylist() if series else []:
            if not (kept and row["ended_at"] and row["ended_at"] <= kept):
                alerts[row["site"]].append(Alert(**row))
        return alerts

    def _changes(self, standing: Collection[Row]) -> _Changes:
        """The minutes of gold.traffic that changed since the oldest of these evaluations."""
        since = min((row["seen_at"] for row in standing), default=None)
        columns = ["site", "window_start", "updated_at"]
        table = self.tables[_TRAFFIC]
        none = table.arrow_schema.empty_table().select(columns)
        rows = none if since is None else self.store.read(table, [[("updated_at", ">", since)]], columns)
        return _Changes(rows)

    def _write(
        self, alerts: Sequence[Alert], rules: Sequence[Row], standing: Mapping[tuple[str, str], Row]
    ) -> None:
        key = pa.schema([ALERT_RULES.arrow_schema.field(name) for name in ALERT_RULES.key])
        gone = [
            dict(zip(ALERT_RULES.key, each, strict=True))
            for each in standing
            if each[0] not in self.settings.alerts
        ]
        # The alerts first: rules whose row is not written are evaluated again.
        for table, rows, deleted in (
            (ALERTS, rows_of(alerts), None),
            (ALERT_RULES, pa.Table.from_pylist(list(rules), ALERT_RULES.arrow_schema), gone),
        ):
            if rows.num_rows or deleted:
                without = pa.Table.from_pylist(deleted, key) if deleted else None
                with appending(self.settings):
                    commit = Commit(WRITER, self.store.committed(table, WRITER) + 1)
                    self.store.upsert(table, Change(rows, without), commit)


class _Changes:
    """Which minutes changed when, by site."""

    def __init__(self, rows: pa.Table) -> None:
        micros = {
            name: whole(rows[name].cast(pa.int64())).to_numpy() for name in ("window_start", "updated_at")
        }
        self._starts, self._times = micros["window_start"], micros["updated_at"]
        self._sites = whole(rows["site"])

    def windows(self, site: str, since: datetime, width: int) -> list[Range]:
        """Ranges of windows of `width` seconds with changes after `since`."""
        after = int(since.timestamp() * 1_000_000)
        of_site = pc.equal(self._sites, site).to_numpy(zero_copy_only=False)
        return runs(self._starts[of_site & (self._times > after)] // (width * 1_000_000))


def _of_rule(standing: Mapping[tuple[str, str], Row], name: str, rule: Rule, swaps: int) -> dict[str, Row]:
    """The rows of the last evaluation by site, of those that still hold."""
    return {
        site: row
        for (each, site), row in standing.items()
        if each == name and (row["definition"], row["swap"]) == (rule.definition, swaps)
    }


def _planned(
    rule: Rule, moment: Moment, standing: Mapping[str, Row], changes: _Changes, kept: datetime | None
) -> tuple[dict[str, Series], dict[str, list[Range]]]:
    """The series and the ranges of windows to evaluate of each site with some, as of the moment: those that begin after
    `kept`."""
    series, todo = {}, {}
    least = window_of(ceil(kept, rule.seconds), rule.seconds) if kept else 0
    for site, span in moment.sites.items():
        if rule.site not in ("", site):
            continue
        start, end = max(window_of(span.first, rule.seconds), least), window_of(span.reached, rule.seconds)
        known = standing.get(site)
        if known is None:
            one, parts = Series(start, start, max(start, end)), [(start, end)]
        else:
            judged = (known[name] for name in ("judged_from", "judged_until"))
            was = tuple(max(window_of(each, rule.seconds), least) for each in judged)
            one = Series(min(start, was[0]), was[1], max(end, was[1]))
            one.last = (known["state"], _number(known["value"]), _number(known["bound"]))
            parts = [(start, was[0]), (was[1], end), *changes.windows(site, known["seen_at"], rule.seconds)]
        ranges = affected(rule, parts, one.start, one.end)
        if ranges or known is None:
            series[site], todo[site] = one, ranges
    return series, todo


def _rule_row(name: str, rule: Rule, site: str, one: Series, now: datetime, swaps: int) -> Row:
    state, value, bound = one.last
    return {
        "rule": name,
        "site": site,
        "definition": rule.definition,
        "about": str(rule),
        "judged_from": time_of(one.start, rule.seconds),
        "judged_until": time_of(one.end, rule.seconds),
        "state": state,
        "value": _known(value),
        "bound": _known(bound),
        "seen_at": now,
        "swap": swaps,
        "updated_at": now,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else value
