"""The example as a whole."""

from __future__ import annotations

from examples.top_sellers.check import check
from examples.top_sellers.generator import events
from examples.top_sellers.job import JOB
from examples.top_sellers.show import show
from tidemark.jobs.example import Example

EXAMPLE = Example("examples.top_sellers", JOB, events, show, check)
