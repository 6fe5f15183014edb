"""The tables `[alerts.NAME]` of `tidemark.toml`: rules by which a figure of a site raises an alert."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.declared import Declared, Goal
from tidemark.figures.selection import FIELDS, Filter, SelectionError, filters_of
from tidemark.figures.toml_tables import MOST_DEFINITIONS, tables_of

METRICS = ("requests", "visitors", "share_5xx", "not_found", "p95", "share_bots")
WINDOWS = {"5m": 300, "1h": 3600, "1d": 86_400}
# Rules watch lines, which have every field but this.
RULE_FIELDS = tuple(name for name in FIELDS if name != "entry_page")
MOST_WINDOWS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Rule:
    """`metric`: one of METRICS, or `goal:NAME` for the requests of people that match a goal; p95 is in seconds, shares
    are between 0 and 1. `filter`: conditions on a line in their text form, all of which must hold. `site`: empty for
    every site.

    A window breaches the rule if the metric is above `above`, below `below`, or further than `deviation` (k) times
    1.4826 times the median absolute deviation from the median of the same window of the last four weeks. The alert
    fires after `breaches` of `of` windows, and ends after as many that don't breach.

    `to`: notification URLs (https://appriseit.com/services/), or `$NAME` for some in an environment variable of
    the pipeline; if empty, those of the setting `alert_to`.
    """

    metric: str = ""
    window: str = "5m"
    filter: tuple[str, ...] = ()
    site: str = ""
    above: float | None = None
    below: float | None = None
    deviation: float | None = None
    breaches: int = 1
    of: int = 1
    to: tuple[str, ...] = field(default=(), repr=False)
    # The goal of a metric `goal:NAME`.
    goal: Goal | None = field(default=None, metadata={"derived": True})

    @property
    def seconds(self) -> int:
        """Length of the windows."""
        return WINDOWS[self.window]

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters on lines. Raises SelectionError."""
        return filters_of(self.filter)

    @property
    def targets(self) -> tuple[str, ...]:
        """Its own targets as they may be shown, because they are secrets: names of variables, or schemes of URLs."""
        return tuple(map(_shown, self.to))

    @property
    def definition(self) -> str:
        """A hash of what decides when the rule fires."""
        facts = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("to", "goal")
        }
        if self.goal:
            facts["goal"] = self.goal.definition
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        bounds = [
            f"{name} {getattr(self, name):g}"
            for name in ("above", "below")
            if getattr(self, name) is not None
        ]
        bounds += [f"{self.deviation:g} deviations off"] if self.deviation is not None else []
        of = f", {self.breaches} of {self.of} windows" if self.of > 1 else ""
        where = f" where {' and '.join(self.filter)}" if self.filter else ""
        return f"{self.metric}{where} {' or '.join(bounds)} in {self.window}{of}"


def window_of(time: datetime, seconds: int) -> int:
    """The number since the epoch of the window of `seconds` that contains a time."""
    return (time - _EPOCH) // timedelta(seconds=seconds)


def time_of(window: int, seconds: int) -> datetime:
    """The beginning of a window."""
    return _EPOCH + timedelta(seconds=window * seconds)


def rules_of(tables: Any, source: str, goals: Mapping[str, Goal]) -> dict[str, Rule]:
    """The tables `[alerts.NAME]` of a file, which may watch its `goals`. Raises SettingError."""
    rules = {}
    for name, values in tables_of("alerts", tables, Rule, source, most=MOST_DEFINITIONS).items():
        kind, _, goal = values.get("metric", "").partition(":")
        rules[name] = rule = Rule(**values, goal=goals.get(goal) if kind == "goal" else None)
        for trouble, remedy in _troubles(rule):
            raise SettingError(f"{source}: {trouble} of alert {name}", remedy)
    return rules


def rule_of(declared: Declared, name: str) -> Rule:
    """A rule by its name. Raises SettingError for one that cannot be used, KeyError for a missing one."""
    return rules_of({name: declared.of("alerts")[name]}, declared.source, declared.goals)[name]


def _shown(target: str) -> str:
    scheme, separator, _ = target.partition("://")
    return target if target.startswith("$") else scheme if separator and scheme.isalnum() else "unknown"


def _troubles(rule: Rule) -> Iterator[tuple[str, str]]:
    """Problems and their remedies."""
    if rule.metric not in METRICS and not rule.goal:
        known = ", ".join(METRICS)
        yield f"unknown metric {rule.metric!r}", f"Use one of {known}, or goal:NAME of a goal."
    if rule.window not in WINDOWS:
        yield f"unknown window {rule.window!r}", f"Use one of {', '.join(WINDOWS)}."
    for text in rule.filter:
        try:
            usable = Filter.parse(text).field in RULE_FIELDS
        except SelectionError:
            usable = False
        if not usable:
            known = ", ".join(RULE_FIELDS)
            yield f"unknown filter {text!r}", f"Write field=value, !=, ~ or ^; fields are {known}."
    if rule.above is None and rule.below is None and rule.deviation is None:
        yield "no bound", "Set above, below or deviation."
    if rule.deviation is not None and rule.deviation <= 0:
        yield f"deviation {rule.deviation:g} is not positive", "Use a number such as 4."
    if not 1 <= rule.breaches <= rule.of <= MOST_WINDOWS:
        yield f"breaches = {rule.breaches}, of = {rule.of}", f"Use 1 <= breaches <= of <= {MOST_WINDOWS}."
