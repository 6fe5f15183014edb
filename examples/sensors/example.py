"""The example as a whole."""

from __future__ import annotations

from examples.sensors.check import check
from examples.sensors.generator import events
from examples.sensors.job import JOB
from examples.sensors.show import show
from tidemark.jobs.example import Example

EXAMPLE = Example("examples.sensors", JOB, events, show, check)
