"""The output of `tidemark alerts`: the state of every rule, and the newest alerts."""

from __future__ import annotations

import os
from typing import Any

from tidemark.contract.quality_tables import ALERT_RULES, ALERTS
from tidemark.contract.store import Store
from tidemark.errors import SettingError
from tidemark.operate.alerts.delivery import Target, send, targets_of, trial
from tidemark.settings import Settings


def listed(store: Store, rule: str | None, site: str | None, last: int) -> dict[str, list[dict[str, Any]]]:
    """`rules`: rows of quality.alert_rules; `alerts`: the newest rows of quality.alerts, newest first. Both only of
    one rule or site if it is given. Raises TableError."""
    alerts = {}
    for name, table in (("rules", ALERT_RULES), ("alerts", ALERTS)):
        rows = store.read(table).to_pylist() if store.exists(table) else []
        alerts[name] = [row for row in rows if rule in (None, row["rule"]) and site in (None, row["site"])]
    alerts["rules"].sort(key=lambda row: (row["rule"], row["site"]))
    alerts["alerts"] = sorted(alerts["alerts"], key=lambda row: row["window_start"], reverse=True)[:last]
    return alerts


def lines(alerts: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The same as text."""
    shown = []
    for row in alerts["rules"]:
        value = "undefined" if row["value"] is None else f"{row['value']:.6g}"
        shown.append(
            f"{row['rule']} on {row['site']}: {row['state']} at {_time(row['judged_until'])}, value {value}"
            f" ({row['about']})"
        )
    for row in alerts["alerts"]:
        end = f", ended {_time(row['ended_at'])}" if row["ended_at"] else ""
        end += f", withdrawn {_time(row['withdrawn_at'])}" if row["withdrawn_at"] else ""
        delivery = "not delivered"
        if row["delivered_at"]:
            to = row["delivered_to"]
            delivery = f"delivered {_time(row['delivered_at'])} to {to}" if to else "the rule has no target"
        why = f" ({row['failure']})" if row["failure"] else ""
        shown.append(
            f"{_time(row['window_start'])}  {row['rule']} on {row['site']}: {row['state']}, value {row['value']:.6g},"
            f" bound {row['bound']:.6g}{end}; {delivery}{why}"
        )
    return shown or ["no alert rule has been evaluated yet"]


def tried(settings: Settings, rule: str | None) -> dict[str, bool]:
    """Sends a test message to every target of the rules, or of one. Returns by target whether it took the message.

    Raises SettingError for an unknown rule, and without a target.
    """
    rules = {name: each for name, each in settings.alerts.items() if rule in (None, name)}
    if not rules:
        known = ", ".join(settings.alerts) or "none"
        raise SettingError(f"there is no alert rule {rule or 'yet'}", f"Rules of tidemark.toml: {known}.")
    targets: dict[Target, dict[str, list[str]]] = {}
    for name, each in rules.items():
        for label, target in targets_of(each.to, settings, os.environ).items():
            targets.setdefault(target, {}).setdefault(label, []).append(name)
    if not targets:
        raise SettingError("no alert rule has a target", "Set `to` of the rule, or alert_to.")
    taken = {}
    for target, by_label in targets.items():
        names = [name for names in by_label.values() for name in names]
        taken[f"{next(iter(by_label))} of alert {', '.join(names)}"] = send(target, trial(names))
    return taken


def _time(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
