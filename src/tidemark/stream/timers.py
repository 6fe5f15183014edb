"""Finishes a query with processing-time timers, which always has another batch to run."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS = 0.1


def await_timers(query: StreamingQuery, seconds: float) -> None:
    """Returns when the query has found no new input and then run for another `seconds`: a batch
    that began after that is done, so timers due by then have fired. Also returns when the query ends.

    `StreamingQuery.processAllAvailable` cannot be used: Spark runs batches without data for as long as
    a processor has processing-time timers, so it would never return.
    """
    quiet = _await_batch(query, datetime.now(UTC), idle=True)
    if quiet is not None:
        _await_batch(query, quiet + timedelta(seconds=seconds), idle=False)


def _await_batch(query: StreamingQuery, after: datetime, *, idle: bool) -> datetime | None:
    """Start of the first completed batch that began after a given moment; None if the query ends."""
    while query.isActive:
        for number, progress in enumerate(query.recentProgress):
            began = datetime.fromisoformat(progress["timestamp"])
            # The first batch of a run may repeat one of the previous run, with the rows chosen then.
            if began > after and not (idle and (progress["numInputRows"] or number == 0)):
                return began
        time.sleep(_POLL_SECONDS)
    return None
