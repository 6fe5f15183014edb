"""The example as a whole."""

from __future__ import annotations

from examples.kit.example import Example
from examples.top_sellers.check import check
from examples.top_sellers.generator import events
from examples.top_sellers.job import JOB
from examples.top_sellers.show import show

EXAMPLE = Example("examples.top_sellers", JOB, events, show, check)
