"""The tables `[alerts.NAME]` of `tidemark.toml`: rules by which a figure of a site raises an alert."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidemark.errors import SettingError
from tidemark.settings.questions import GoalSettings
from tidemark.settings.tables import tables_of

METRICS = ("requests", "visitors", "share_5xx", "not_found", "p95", "share_bots")
WINDOWS = {"5m": 300, "1h": 3600, "1d": 86_400}
FIELDS = (
    "country", "host", "path", "status", "method", "device", "browser", "os", "channel", "source", "bot_kind",
)  # fmt: skip
MOST_WINDOWS = 1000

# Field, operator, values of which one is enough (for `!=`: all of which are excluded).
Condition = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True)
class AlertSettings:
    """`metric`: one of METRICS, or `goal:NAME` for the requests of people that match a goal; p95 is in seconds, shares
    are between 0 and 1. `filter`: conditions on a line, all of
    which must hold: `field=value`, `field!=value`, `field~part`, `field^start`, several values separated by `|`.
    `site`: empty for every site.

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
    goal: GoalSettings | None = field(default=None, metadata={"derived": True})

    @property
    def seconds(self) -> int:
        """Length of the windows."""
        return WINDOWS[self.window]

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The filter as fields, operators and values. Several `=` of one field are one condition: a line has only one
        value."""
        found = [condition for text in self.filter if (condition := condition_of(text))]
        same: dict[str, tuple[str, ...]] = {}
        for name, operator, values in found:
            if operator == "=":
                same[name] = (*same.get(name, ()), *values)
        kept = [each for each in found if each[1] != "="]
        return (*((name, "=", values) for name, values in same.items()), *kept)

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


def condition_of(text: str) -> Condition | None:
    """Field, operator and values of a condition such as `country=DE|FR`; None if it is none. A backslash makes a `|`
    or a backslash part of a value."""
    found = re.fullmatch(r"\s*([a-z_]+)\s*(!=|=|~|\^)(.*)", text, re.DOTALL)
    if not found or found[1] not in FIELDS:
        return None
    values = [""]
    for token in re.findall(r"\\.|.", found[3], re.DOTALL):
        if token == "|":
            values.append("")
        else:
            values[-1] += token[-1]
    return found[1], found[2], tuple(dict.fromkeys(values))


def alerts_of(found: Any, source: str, goals: Mapping[str, GoalSettings]) -> dict[str, AlertSettings]:
    """The tables `[alerts.NAME]` of a file, which may watch its `goals`. Raises SettingError."""
    rules = {}
    for name, values in tables_of("alerts", found, AlertSettings, source).items():
        kind, _, goal = values.get("metric", "").partition(":")
        rules[name] = rule = AlertSettings(**values, goal=goals.get(goal) if kind == "goal" else None)
        for trouble, remedy in _troubles(rule):
            raise SettingError(f"{source}: {trouble} of alert {name}", remedy)
    return rules


def _troubles(rule: AlertSettings) -> list[tuple[str, str]]:
    found = []
    if rule.metric not in METRICS and not rule.goal:
        known = ", ".join(METRICS)
        found.append((f"unknown metric {rule.metric!r}", f"Use one of {known}, or goal:NAME of a goal."))
    if rule.window not in WINDOWS:
        found.append((f"unknown window {rule.window!r}", f"Use one of {', '.join(WINDOWS)}."))
    for text in rule.filter:
        if condition_of(text) is None:
            known = ", ".join(FIELDS)
            found.append((f"unknown filter {text!r}", f"Write field=value, !=, ~ or ^; fields are {known}."))
    if rule.above is None and rule.below is None and rule.deviation is None:
        found.append(("no bound", "Set above, below or deviation."))
    if rule.deviation is not None and rule.deviation <= 0:
        found.append((f"deviation {rule.deviation:g} is not positive", "Use a number such as 4."))
    if not 1 <= rule.breaches <= rule.of <= MOST_WINDOWS:
        found.append(
            (f"breaches = {rule.breaches}, of = {rule.of}", f"Use 1 <= breaches <= of <= {MOST_WINDOWS}.")
        )
    return found
