"""The job: an exact path that confirms, beside it a fast one that alerts at once, and what follows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from examples.fraud_alerts import charts, confirm, sequences
from examples.fraud_alerts.provisional import Provisional
from examples.fraud_alerts.topics import ALERTS, DEVICES, JUDGED, TRANSACTIONS
from tidemark import kafka
from tidemark.jobs.job import Job, Query, Sources


def queries(sources: Sources) -> Sequence[Query]:
    """The exact path, which keeps the fast one running, sequences, and tables for charts."""
    return exact_queries(sources, Provisional(sources))


def exact_queries(sources: Sources, provisional: Provisional | None = None) -> Sequence[Query]:
    """The same, without a fast path unless there is one to keep running."""
    kafka.ensure_topic(sources.settings, JUDGED, partitions=1)
    exact = confirm.Confirmation(sources, provisional)
    return [
        Query("confirm", confirm.inputs(sources), exact.write, trigger={"processingTime": "0 seconds"}),
        Query(
            "sequences",
            sequences.matches(sources),
            sequences.SequenceAlerts(sources).write,
            trigger={"processingTime": "10 seconds"},
            state_partitions=1,  # each takes a Python worker of its own, and few payments fit a step
        ),
        Query(
            "charts",
            charts.judgements(sources),
            partial(charts.write, sources.store),
            trigger={"processingTime": "5 seconds"},
        ),
    ]


JOB = Job(
    name="fraud-alerts",
    version=2,
    inputs=(TRANSACTIONS, DEVICES),
    queries=queries,
    tables=(charts.WINDOWS, charts.CONFIRMED_ALERTS),
    outputs=(ALERTS,),
    # The fast path holds a task for each partition of the transactions, twice that when it changes over.
    slots=8,
)
