"""The parts of the example: its job, its input, its output, and the recount."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from examples.fraud_alerts.check import differences, report, truth
from examples.fraud_alerts.generator import events
from examples.fraud_alerts.job import JOB
from examples.fraud_alerts.topics import ALERTS
from examples.kit.example import Example
from examples.kit.load import Load
from examples.kit.results import Results

_SHOWN = 12


def show(results: Results) -> Iterator[str]:
    """The newest alerts, at most a screenful a second."""
    alerts = [json.loads(message.value) for message in results.new_messages(ALERTS)]
    alerts.sort(key=lambda alert: (alert["decided_at"], alert["status"] == "confirmed"))
    for alert in alerts[-_SHOWN:]:
        yield (
            f"{alert['status']:<11} {alert['rule']:<12} {alert['transaction']:<9} {alert['customer']}"
            f"  {alert['reason']}"
        )
    if len(alerts) > _SHOWN:
        yield f"  … and {len(alerts) - _SHOWN} more"


def check(load: Load, results: Results) -> Iterable[str]:
    wanted = truth(events(load))
    print(report(wanted, results))
    return differences(wanted, results)


EXAMPLE = Example("examples.fraud_alerts", JOB, events, show, check)
