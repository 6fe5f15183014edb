"""The jobs: an exact path that confirms, beside it a fast one that alerts at once; and one that goes by what they
decide, in a process of its own, so that analytics take no processor time from the alerts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from examples.fraud_alerts import charts, confirm, sequences
from examples.fraud_alerts.provisional import Provisional
from examples.fraud_alerts.topics import (
    ALERTS,
    DEVICES,
    EVALUATED,
    SEQUENCE_STATES,
    STATES,
    TRANSACTIONS,
)
from examples.kit.job import Job, Sources
from examples.kit.positions import BESIDE
from tidemark.stream.query import Query


def queries(sources: Sources) -> Sequence[Query]:
    """The exact path, which keeps the fast one running."""
    return exact_queries(sources, Provisional(sources))


def exact_queries(sources: Sources, provisional: Provisional | None = None) -> Sequence[Query]:
    """The same, without a fast path unless there is one to keep running."""
    exact = confirm.Confirmation(sources, provisional)
    return [
        Query(
            "confirm",
            partial(confirm.inputs, sources),
            exact.write,
            trigger={"processingTime": "0 seconds"},
            options=BESIDE,
            elsewhere=f"topic {STATES}",
            own_positions=True,
            ready=provisional.at_work.is_set if provisional else lambda: True,
        )
    ]


def analytics(sources: Sources) -> Sequence[Query]:
    """Sequences, and tables for charts."""
    return [
        Query(
            "sequences",
            partial(sequences.matches, sources),
            sequences.SequenceAlerts(sources).write,
            trigger={"processingTime": "10 seconds"},
            elsewhere=f"topic {SEQUENCE_STATES}",
            state_partitions=1,  # each takes a Python worker of its own, and few payments fit a step
        ),
        Query(
            "charts",
            partial(charts.evaluated, sources),
            partial(charts.write, sources.store),
            trigger={"processingTime": "5 seconds"},
            commits=(charts.WINDOWS,),
        ),
    ]


ANALYTICS = Job(
    name="fraud-analytics",
    version=1,
    inputs=(),
    queries=analytics,
    tables=(charts.WINDOWS, charts.CONFIRMED_ALERTS),
    outputs=(ALERTS,),
    ordered=(EVALUATED,),
)
JOB = Job(
    name="fraud-alerts",
    version=2,
    inputs=(TRANSACTIONS, DEVICES),
    queries=queries,
    outputs=(ALERTS,),
    ordered=(EVALUATED,),
    # The fast path holds a task for each partition of the transactions, twice that when it changes over.
    slots=8,
    followers=(ANALYTICS,),
)
