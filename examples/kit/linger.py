"""The end of a query with timers of processing time, which always has another batch to run."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS = 0.1


def await_timers(query: StreamingQuery, seconds: float) -> None:
    """Returns once the query has found nothing new in its sources and then run on for `seconds`: a batch
    that began after that is done, so timers due by then have fired. Also returns when the query ends.

    `StreamingQuery.processAllAvailable` cannot be used: Spark runs batches without data for as long as
    a processor has timers of processing time, so it would never return.
    """
    quiet = _await_batch(query, datetime.now(UTC), idle=True)
    if quiet is not None:
        _await_batch(query, quiet + timedelta(seconds=seconds), idle=False)


def _await_batch(query: StreamingQuery, after: datetime, *, idle: bool) -> datetime | None:
    """When the first batch began that did so after a moment and is done now; None if the query ends."""
    while query.isActive:
        for number, progress in enumerate(query.recentProgress):
            began = datetime.fromisoformat(progress["timestamp"])
            # The first batch of a run may be one of the run before: its rows, or none, were chosen then.
            if began > after and not (idle and (progress["numInputRows"] or number == 0)):
                return began
        time.sleep(_POLL_SECONDS)
    return None
