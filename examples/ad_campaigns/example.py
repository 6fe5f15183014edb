"""The example as a whole."""

from __future__ import annotations

from examples.ad_campaigns.check import View
from examples.ad_campaigns.generator import events
from examples.ad_campaigns.job import job
from examples.ad_campaigns.sinks import ToRedis, to_delta
from examples.kit.example import Example


def example(redis: str | None) -> Example:
    """The example with counts in the Redis at this address, or in a Delta table if there is none."""
    sink = ToRedis(redis) if redis else None
    view = View(sink)
    return Example(
        "examples.ad_campaigns", job(sink or to_delta), events, view.show, view.check, rate=1_000.0
    )


EXAMPLE = example(None)
