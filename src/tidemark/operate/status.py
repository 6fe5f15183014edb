"""The output of `tidemark status`: running parts and the state of each flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemark.errors import TidemarkError
from tidemark.home import QUERY_VERSIONS, Home
from tidemark.local import broker
from tidemark.local.records import live_record, read_record
from tidemark.operate import backfill
from tidemark.settings import Settings
from tidemark.settings.sections import DashboardSettings
from tidemark.stream import lock

PARTS = ("broker", "pipeline", "traffic", "dashboard")
_ANSWER_SECONDS = 3.0
# Up to this many tables that are filled together are listed by name.
_MANY = 4


def describe(settings: Settings) -> dict[str, Any]:
    """State of a home: addresses, processes, per flow `lag` (rows), `rows_per_second` and `freshness_seconds`, and in
    `history` the tables that lack what came before, with the parts `done` of `total`; `own_hosts` is as
    `backfill.settings_progress`, `unfinished` what was interrupted and what to do. Values that cannot be known are
    None, such as an address whose port is to be any free one and is not taken yet."""
    records = {part: live_record(settings.run_directory / f"{part}.json") for part in PARTS}
    pipeline = read_record(settings.run_directory / "pipeline.json")
    dashboard = records["dashboard"] or {}
    return {
        "home": str(settings.home),
        "bootstrap_servers": _servers(settings),
        "topic": settings.kafka.topic,
        "dashboard_url": dashboard.get("url") or _configured_url(settings.dashboard),
        "metrics_url": (records["pipeline"] or {}).get("endpoint") or None,
        "parts": {part: _part(record) for part, record in records.items()} | {"broker": _broker(settings)},
        "troubles": (records["pipeline"] or {}).get("troubles", {}),
        "flows": _flows(pipeline, records["pipeline"] is not None),
        "history": _of_home(settings, backfill.progress),
        "own_hosts": _of_home(settings, backfill.settings_progress),
        "unfinished": _unfinished(settings),
    }


def _unfinished(settings: Settings) -> str:
    try:
        lock.require_restored(settings)
    except TidemarkError as error:
        return str(error)
    return ""


def lines(state: dict[str, Any]) -> list[str]:
    """The state as text."""
    shown = [
        f"home       {state['home']}",
        f"kafka      {state['bootstrap_servers'] or 'not started yet'}, topic {state['topic']}",
    ]
    for part, facts in state["parts"].items():
        what = f"{facts['state']} (pid {facts['pid']})" if facts["pid"] else "not running"
        address = {"dashboard": state["dashboard_url"], "pipeline": state["metrics_url"]}.get(part)
        where = f" at {address}" if address and facts["pid"] else ""
        shown.append(f"{part:<10} {what}{where}")
    shown += [f"{task:<10} its last run failed: {why}" for task, why in state["troubles"].items()]
    shown += filter(None, [state["unfinished"]])
    for name, flow in state["flows"].items():
        shown.append(
            f"flow {name}: {_number(flow['rows_per_second'], ' rows/s')}, lag {_number(flow['lag'], ' rows')}, "
            f"freshness {_number(flow['freshness_seconds'], ' s')}, newest event {flow['newest_event_time'] or '-'}"
        )
    for name, part in state["history"].items():
        of = f"{part['done']} of {part['total']} parts done" if part["total"] else "not begun"
        shown.append(f"{name} is incomplete: backfill of its history, {of}")
    return [*shown, *_settings_lines(state["own_hosts"])]


def _settings_lines(changed: dict[str, Any]) -> list[str]:
    if not changed:
        return []
    names = changed["tables"].split(", ")
    tables = changed["tables"] if len(names) < _MANY else f"{len(names)} tables"
    done = (
        f"{changed['done']} of {changed['total']} parts of {tables} done" if changed["total"] else "not begun"
    )
    return [f"{changed['subject']} are not applied to history yet: {changed['reason'] or done}"]


def _of_home(settings: Settings, ask: Callable[[Home], dict[str, Any]]) -> dict[str, Any]:
    try:
        return ask(Home.of(settings))
    except TidemarkError:  # the home cannot be used; other commands explain why
        return {}


def _part(record: dict[str, Any] | None) -> dict[str, Any]:
    if record is None:
        return {"state": "stopped", "pid": None}
    return {"state": record.get("state", "running"), "pid": record["pid"]}


def _broker(settings: Settings) -> dict[str, Any]:
    """State of the broker: its process may live without answering, while it starts or when it hangs."""
    there = broker.status(settings)
    if there is None:
        return _part(None)
    answers = broker.answers(there.bootstrap_servers, _ANSWER_SECONDS)
    return {"state": "running" if answers else "not answering", "pid": there.pid}


def _configured_url(dashboard: DashboardSettings) -> str | None:
    return f"http://{dashboard.address}:{dashboard.port}" if dashboard.port else None


def _flows(pipeline: dict[str, Any], running: bool) -> dict[str, Any]:
    known: dict[str, Any] = pipeline.get("flows", {})
    flows = {
        name: known.get(name) or dict.fromkeys(("lag", "freshness_seconds", "newest_event_time"))
        for name in QUERY_VERSIONS
    }
    for flow in flows.values():
        flow["rows_per_second"] = flow.get("rows_per_second", 0.0) if running else 0.0
    return flows


def _servers(settings: Settings) -> str | None:
    try:
        return broker.bootstrap_servers(settings)
    except TidemarkError:
        return settings.kafka.bootstrap_servers or None


def _number(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:,.1f}".removesuffix(".0") + unit
