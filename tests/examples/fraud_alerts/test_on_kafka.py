"""The exact path on a real broker: claims among the input, stopped in the middle, started again, recounted.

The fast path, which needs more task slots than the tests' Spark has, runs in tests/examples/test_end_to_end.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from examples.fraud_alerts.check import truth
from examples.fraud_alerts.evaluation import PROVISIONAL
from examples.fraud_alerts.example import EXAMPLE
from examples.fraud_alerts.generator import START, events
from examples.fraud_alerts.job import ANALYTICS, JOB, analytics, exact_queries
from examples.fraud_alerts.topics import ALERTS, TRANSACTIONS
from examples.kit import run
from examples.kit.example import recount
from examples.kit.job import Sources
from examples.kit.load import Event, Load, send
from examples.kit.results import Results
from tidemark.kafka import client as kafka
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings
from tidemark.stream.query import Query

LOAD = Load(seed=5, rate=50, seconds=14, late=0.2)


def claims(generated: list[Event]) -> list[Event]:
    """Provisional alerts on both rules for the first hundred payments of the run, right or wrong."""
    result = []
    for event in generated:
        if event.topic == TRANSACTIONS.topic and not event.reason and event.at > 0 and len(result) < 200:
            fields = json.loads(event.value)
            for rule in ("amount", "location"):
                claim = {
                    "transaction": fields["id"], "customer": fields["customer"], "rule": rule,
                    "status": PROVISIONAL, "reason": "perhaps", "decided_at": 1,
                    "produced": 0, "time": START * 1000 + round(event.at * 1000),
                }  # fmt: skip
                result.append(Event(0.0, ALERTS, json.dumps(claim).encode(), fields["id"].encode()))
    return result


def often(sources: Sources) -> Sequence[Query]:
    """The follower's queries, which otherwise look for input each five or ten seconds."""
    return [replace(query, trigger={"processingTime": "1 second"}) for query in analytics(sources)]


def test_stopped_and_started_again(spark: SparkSession, broker: Settings, tmp_path: Path) -> None:
    job, quick = replace(JOB, queries=exact_queries, slots=0), replace(ANALYTICS, queries=often)
    home = broker.changed(home=tmp_path)
    prepare_home(home)
    for topic, partitions in job.topics().items():
        kafka.ensure_topic(home.kafka, topic, partitions=partitions)
    items = [event._replace(at=0.0) for event in events(LOAD)]
    middle = len(items) * 3 // 4
    assert {rule for _, rule in truth(events(LOAD)).alerts} >= {
        "amount",
        "together",
        "location",
        "card testing",
    }

    send(items[:middle], home.kafka, threading.Event())
    with run.running(job, spark, home), run.running(quick, spark, home):
        send(items[middle : middle + 500], home.kafka, threading.Event())
        # They are stopped in the middle of whatever they do.
    with run.running(job, spark, home) as exact, run.running(quick, spark, home) as follower:
        send([*claims(list(events(LOAD))), *items[middle + 500 :]], home.kafka, threading.Event())
        exact.catch_up()
        follower.catch_up()

    results = Results(home)
    assert recount(EXAMPLE, LOAD, results) == []
    alerts = [json.loads(message.value) for message in results.messages(ALERTS)]
    withdrawn = sum(alert["status"] == "withdrawn" for alert in alerts)
    assert 0 < withdrawn < len([alert for alert in alerts if alert["status"] == PROVISIONAL])
    assert list(EXAMPLE.show(results))
