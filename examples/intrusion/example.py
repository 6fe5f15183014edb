"""The example for its command line: input, job, output, and the recount."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from examples.intrusion.check import Sequel, logged, logins, traffic
from examples.intrusion.generator import events
from examples.intrusion.job import ALERTS_TOPIC, LATENESS, LOGIN_ALERTS, TRAFFIC_ALERTS, job
from examples.intrusion.rules import Alert, Limits
from examples.kit.example import Example
from examples.kit.load import Load
from examples.kit.results import Message, Results, differences


def show(results: Results) -> Iterator[str]:
    """Each alert as it is raised or withdrawn, from the topic."""
    for message in results.new_messages(ALERTS_TOPIC):
        alert = json.loads(message.value)
        text = (
            f"{alert['started_at'][11:19]}  {alert['state']:<9} {alert['rule']:<17} {alert['client_ip']:<15}"
        )
        if "matched_at" in alert:
            yield f"{text} until {alert['matched_at'][11:19]}"
        elif alert["rule"] == "scan":
            yield f"{text} {alert['value']:,} paths not found"
        else:
            yield f"{text} {alert['value']:,} requests, usually {alert['usual']:.0f}"


def check(load: Load, results: Results) -> Iterator[str]:
    """Both tables and the topic against the recount."""
    lines = logged(events(load))
    windows = _traffic(results)
    yield from differences("alert", _counted(traffic(lines, Limits())), _counted(windows))
    # A sequence is found once the watermark has passed it. One that ends at that second may be found or not.
    watermark = max(line.second for line in lines) - int(LATENESS.total_seconds())
    wanted, sequels = logins(lines), _logins(results)
    yield from differences(
        "logins",
        _counted(sequel for sequel in wanted if sequel.end < watermark),
        _counted(sequel for sequel in sequels if sequel.end < watermark),
    )
    raised = {(s.rule, s.client_ip, s.start) for s in sequels} | {a[:3] for a in windows}
    yield from differences(
        "message", dict.fromkeys(map(_key, raised), "raised"), _states(results.messages(ALERTS_TOPIC))
    )


def _traffic(results: Results) -> list[Alert]:
    rows = results.table(TRAFFIC_ALERTS).to_pylist()
    return [Alert(r["rule"], r["client_ip"], _second(r["started_at"]), r["value"], r["usual"]) for r in rows]


def _logins(results: Results) -> list[Sequel]:
    rows = results.table(LOGIN_ALERTS).to_pylist()
    return [
        Sequel(r["rule"], r["client_ip"], _second(r["started_at"]), _second(r["matched_at"])) for r in rows
    ]


def _states(messages: list[Message]) -> Mapping[str, str]:
    """The current state of each alert: the one with the highest version, unless it is withdrawn."""
    newest: dict[str, dict[str, Any]] = {}
    for message in messages:
        alert = json.loads(message.value)
        before = newest.get(message.key.decode())
        if before is None or alert["version"] >= before["version"]:
            newest[message.key.decode()] = alert
    return {key: alert["state"] for key, alert in newest.items() if alert["state"] == "raised"}


def _key(alert: tuple[str, str, int]) -> str:
    return "/".join(map(str, alert))


def _counted(sequels: Any) -> Counter[Any]:
    return Counter(sequels)


def _second(time: datetime) -> int:
    return int(time.timestamp())


EXAMPLE = Example("examples.intrusion", job(), events, show, check, rate=400.0)
